"""Scalar instructions of a traced wave."""
import re

import numpy as np

from . import integers
from .integers import U32, U64
from .isa import EXEC, SCC
from .trace import CODE_BASE

COMPARE = re.compile(r"s_cmpk?_(eq|lg|lt|gt|le|ge)_([ui](?:32|64))$")
SAVE = re.compile(r"s_(and|or|xor|andn2|and_not1|orn2|or_not1|andn1|and_not0)_saveexec_b(32|64)$")


def execute(wave, instruction):
    name, operands = instruction.name, instruction.operands
    if instruction.kind == "smem":
        return load(wave, instruction)
    if match := COMPARE.match(name):
        return compare(wave, match, operands)
    if match := SAVE.match(name):
        return save_exec(wave, match, instruction)
    if name == "s_mov_b64" and operands[0].register != EXEC:
        return wave.move_pair(operands)
    if name.startswith("s_cselect"):
        return select(wave, operands, 2 if name.endswith("64") else 1)
    if re.match(r"s_(add|sub)c?_(co_(ci_)?)?[ui]32$|s_subb_u32$", name):
        return add(wave, name, operands)
    if name == "s_getpc_b64":
        return wave.write(operands[0], U64(CODE_BASE + instruction.address + instruction.size), 2)
    if re.match(r"s_(movk|addk|add_co|mulk|cmovk)_", name) and len(operands) == 2 and name != "s_mov_b32":
        return immediate(wave, name, operands)
    if re.match(r"s_bitcmp[01]_b(32|64)$", name):
        value, bit = (wave.pair if name.endswith("64") else wave.word)(operands[0]), wave.word(operands[1])
        wave.scalars[SCC] = None if value is None or bit is None else int((int(value) >> (int(bit) & 63) & 1) == int(name[8]))
        return None
    if match := re.match(r"s_bitset([01])_b32$", name):
        value, bit = wave.word(operands[0]), wave.word(operands[1])
        known = value is not None and bit is not None
        return wave.write(operands[0], U32(int(value) & ~(1 << (int(bit) & 31)) | int(match[1]) << (int(bit) & 31)) if known else None)
    if re.match(r"s_bfe_[ui](32|64)$", name):
        return extract(wave, name, operands)
    return plain(wave, name, operands)


def plain(wave, name, operands):
    short = integers.plain_name(name)
    if not operands:
        return
    words, value = operands[0].count or 1, None
    if short in integers.PAIRS:
        values = [wave.pair(o) for o in operands[1:]]
        if all(v is not None for v in values):
            value = integers.PAIRS[short](*(np.asarray(v, U64) for v in values))
        words = 2
    elif integers.WORDS.get(short):
        values = [wave.word(o) for o in operands[1:]]
        if all(v is not None for v in values):
            value = integers.WORDS[short](*(np.asarray(v, U32) for v in values))
        if value is None and short == "and_b32" and any(v is not None and int(v) == 0 for v in values):
            value = U32(0)
        words = 1
    elif short in ("bcnt1_i32_b32", "bcnt1_i32_b64"):
        source = wave.pair(operands[1]) if short.endswith("64") else wave.word(operands[1])
        value, words = (None if source is None else U32(bin(int(source)).count("1"))), 1
    wave.write(operands[0], value, words)
    if re.match(r"s_(and|or|xor|and_not|or_not|andn2|orn2|nand|nor|xnor|not|lsh|ash|lshl\d|bcnt)", name) or short == "abs_i32":
        wave.scalars[SCC] = None if value is None else int(int(value) != 0)
    elif short in ("min_u32", "max_u32", "min_i32", "max_i32"):
        first = wave.word(operands[1])
        wave.scalars[SCC] = None if value is None or first is None else int(int(value) == int(first))


def add(wave, name, operands):
    a, b, carry = wave.word(operands[1]), wave.word(operands[2]), 0
    if re.match(r"s_(addc|subb|add_co_ci|sub_co_ci)_", name):
        carry = wave.scalars[SCC]
    if a is None or b is None or carry is None:
        wave.scalars[SCC] = None
        return wave.write(operands[0], None)
    total = int(a) + int(b) + carry if name.startswith("s_add") else int(a) - int(b) - carry
    result = total & 0xffffffff
    if name.endswith("i32"):  # the condition is a signed overflow
        sign = int(a) >> 31 == (int(b) >> 31 if name.startswith("s_add") else 1 - (int(b) >> 31)) != result >> 31
        wave.scalars[SCC] = int(sign)
    else:
        wave.scalars[SCC] = int(not 0 <= total <= 0xffffffff)
    return wave.write(operands[0], U32(result))


def compare(wave, match, operands):
    size = match[2]
    values = [wave.pair(o) if size.endswith("64") else wave.word(o) for o in operands[:2]]
    wave.scalars[SCC] = None if any(v is None for v in values) else int(bool(integers.compare(match[1], size, *(np.asarray(v) for v in values))))


def save_exec(wave, match, instruction):
    operands = instruction.operands
    words = 1 if match[2] == "32" else 2
    old = wave.scalars[EXEC] | wave.scalars[EXEC + 1] << 32
    source = wave.word(operands[1]) if words == 1 else wave.pair(operands[1])
    wave.write(operands[0], U64(old) if words == 2 else U32(old), words)
    if source is None:  # every lane that was active is taken to stay
        wave.assumed[instruction.address] = wave.assumed.get(instruction.address, 0) + 1
        wave.scalars[SCC] = 1
        return
    source = int(source)
    new = {"and": source & old, "or": source | old, "xor": source ^ old, "andn2": source & ~old, "and_not1": source & ~old, "orn2": source | ~old,
           "or_not1": source | ~old, "andn1": ~source & old, "and_not0": ~source & old}[match[1]]
    wave.write_exec(new)
    wave.scalars[SCC] = int(wave.active.any())


def select(wave, operands, words):
    read = wave.word if words == 1 else wave.pair
    condition = wave.scalars[SCC]
    wave.write(operands[0], None if condition is None else read(operands[1 if condition else 2]), words)


def immediate(wave, name, operands):
    constant = operands[1].value
    constant = constant - 0x10000 if isinstance(constant, int) and constant & 0x8000 and constant < 0x10000 else constant
    old = wave.word(operands[0])
    if name.startswith("s_movk"):
        return wave.write(operands[0], U32(constant & 0xffffffff))
    if old is None or not isinstance(constant, int):
        return wave.write(operands[0], None)
    if name.startswith("s_mulk"):  # leaves the condition as it is (RDNA3 manual, S_MULK_I32)
        return wave.write(operands[0], U32(int(old) * constant & 0xffffffff))
    result = int(old) + constant
    wave.scalars[SCC] = 0
    return wave.write(operands[0], U32(result & 0xffffffff))


def extract(wave, name, operands):
    words = 2 if name.endswith("64") else 1
    value, how = (wave.pair if words == 2 else wave.word)(operands[1]), wave.word(operands[2])
    if value is None or how is None:
        wave.scalars[SCC] = None
        return wave.write(operands[0], None, words)
    offset, width = int(how) & 63, int(how) >> 16 & 127
    result = int(value) >> offset & (1 << width) - 1
    if "_i" in name and width and result >> width - 1:
        result -= 1 << width
    wave.scalars[SCC] = int(result != 0)
    return wave.write(operands[0], U64(result & 0xffffffffffffffff) if words == 2 else U32(result & 0xffffffff), words)


def load(wave, instruction):
    """Scalar loads: arguments, constants of the code object, and arrays whose values the launch gives."""
    operands = instruction.operands
    base = wave.pair(operands[1])
    offset = 0
    for operand in operands[2:3]:
        part = wave.word(operand) if operand.text != "off" else U32(0)
        if part is None:
            base = None
        else:
            offset = int(part) if operand.value is None else int(operand.value)
    offset += instruction.option("offset") if operands[2:3] and operands[2].value is None else 0
    destination = operands[0]
    words = None if base is None else wave.launch.words(int(base) + offset, destination.count)
    if words is not None and instruction.name == "s_load_u16":
        words = [words[0] & 0xffff]
    for part in range(destination.count):
        wave.write_scalar(destination.register + part, None if words is None else words[part])
