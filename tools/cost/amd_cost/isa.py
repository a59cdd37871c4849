"""Instructions of AMD code objects: disassembled by llvm-objdump, with operands, registers and classes."""
import dataclasses
import re
import shutil
import subprocess

# Numbers of registers: scalars 0 to 127, then the scalar condition; vector registers from VECTOR on, accumulators from ACCUMULATOR on.
VCC, TTMP, NULL, M0, EXEC, SCC, VECTOR, ACCUMULATOR, REGISTERS = 106, 108, 124, 125, 126, 128, 256, 512, 768
NAMED = {"vcc": (VCC, 2), "vcc_lo": (VCC, 1), "vcc_hi": (VCC + 1, 1), "exec": (EXEC, 2), "exec_lo": (EXEC, 1), "exec_hi": (EXEC + 1, 1),
         "m0": (M0, 1), "null": (NULL, 1), "scc": (SCC, 1)}
FIRST = {"s": 0, "v": VECTOR, "a": ACCUMULATOR, "ttmp": TTMP}
REGISTER = re.compile(r"(s|v|a|ttmp)(?:(\d+)|\[(\d+):(\d+)\])(?:\.[lh])?")
BYTES = {"b8": 1, "u8": 1, "i8": 1, "ubyte": 1, "sbyte": 1, "byte": 1, "b16": 2, "u16": 2, "i16": 2, "ushort": 2, "sshort": 2, "short": 2,
         "b32": 4, "dword": 4, "u32": 4, "i32": 4, "f32": 4, "b64": 8, "dwordx2": 8, "u64": 8, "f64": 8, "b96": 12, "dwordx3": 12, "b128": 16,
         "dwordx4": 16, "b256": 32, "dwordx8": 32, "b512": 64, "dwordx16": 64}
MATRIX = re.compile(r"v_(wmma|swmmac|mfma|smfmac)_")
TRANSCENDENTAL = re.compile(r"v_(exp|log|rcp|rsq|sqrt|sin|cos)(_iflag)?_f(16|32)")
FP64 = re.compile(r"v_\w+_f64(_|$)|v_cvt_f64")
WIDE_INTEGER = re.compile(r"v_(mul_lo_u32|mul_hi_[ui]32|mad_(co_)?[ui]64_[ui]32)$")
WIDE_SHIFT = re.compile(r"v_(lshl|lshr|ashr)rev_[bi]64$|v_lshl_add_u64$")
DOT = re.compile(r"v_dot[248]")
READS_DESTINATION = re.compile(r"v_(pk_)?(fmac|mac)_|v_dot\d+c_|v_dot2acc|v_writelane|v_smfmac|v_swmmac|v_swap|_d16_hi$|_d16$")
NO_DESTINATION = re.compile(r"(global|flat|scratch|buffer|ds)_(store|write)|s_(cmp|bitcmp|cbranch|branch|wait|barrier|nop|clause|delay|sendmsg|endpgm|"
                            r"sleep|setprio|set_inst|inst_pref|code_end|dcache|icache|setreg|ttrace|prefetch|setvskip)|global_(wb|inv)|buffer_(wb|inv|gl)|"
                            r"v_nop|ds_nop")


class Unknown(Exception):
    """One line for a person."""


@dataclasses.dataclass
class Operand:
    register: int | None = None  # first register
    count: int = 0
    value: object = None  # of a constant: int or float
    text: str = ""
    negative: bool = False
    absolute: bool = False

    def registers(self):
        return range(self.register, self.register + self.count) if self.register is not None else ()


@dataclasses.dataclass
class Instruction:
    address: int
    size: int
    name: str  # without _e32, _e64, _dpp, _sdwa
    operands: list
    modifiers: str
    kind: str
    bytes: int = 0  # of a lane, of memory instructions
    parts: tuple = ()  # of a dual-issue pair
    target: int | None = None
    suffix: str = ""
    reads: tuple = ()
    writes: tuple = ()

    def option(self, name, default=0):
        match = re.search(rf"\b{name}:(-?\w+)", self.modifiers)
        return int(match[1], 0) if match else default

    def __str__(self):
        return " ".join([self.name + self.suffix, ", ".join(o.text for o in self.operands), self.modifiers]).strip()


def parse_operand(text):
    text = text.strip()
    plain, negative, absolute = text, False, False
    if plain.startswith("-") and not re.match(r"-[\d.]", plain):
        plain, negative = plain[1:], True
    for prefix in ("neg(", "abs(", "sext("):
        if plain.startswith(prefix):
            plain = plain[len(prefix):-1]
            negative, absolute = negative or prefix == "neg(", absolute or prefix == "abs("
    if plain.startswith("|") and plain.endswith("|"):
        plain, absolute = plain[1:-1], True
    if plain in NAMED:
        first, count = NAMED[plain]
        return Operand(first, count, None, text, negative, absolute)
    if match := REGISTER.fullmatch(plain):
        first = int(match[2] or match[3])
        return Operand(FIRST[match[1]] + first, int(match[4]) - first + 1 if match[4] else 1, None, text, negative, absolute)
    try:
        return Operand(None, 0, int(plain, 0), text, negative, absolute)
    except ValueError:
        pass
    try:
        return Operand(None, 0, float(plain), text, negative, absolute)
    except ValueError:
        return Operand(None, 0, None, text)


def split_operands(text):
    """Operands, and the modifiers behind the last one."""
    parts, depth, start = [], 0, 0
    for i, letter in enumerate(text):
        depth += letter in "[(" and 1 or letter in "])" and -1 or 0
        if letter == "," and depth == 0:
            parts.append(text[start:i].strip())
            start = i + 1
    last = text[start:].strip()
    head, _, modifiers = last.partition(" ")
    return [part for part in [*parts, head] if part], modifiers


def kind_of(name):
    if name.startswith("v_dual_"):
        return "dual"
    if name.startswith("v_"):
        if match := MATRIX.match(name):
            return "wmma" if match[1] in ("wmma", "swmmac") else "mfma"
        if name.startswith(("v_accvgpr", "v_nop")):
            return "valu"
        if name.startswith("v_s_"):
            return "scalar_transcendental"
        for pattern, kind in ((TRANSCENDENTAL, "transcendental"), (FP64, "fp64"), (WIDE_INTEGER, "wide"), (WIDE_SHIFT, "shift64"), (DOT, "dot")):
            if pattern.match(name):
                return kind
        return "valu"
    if name.startswith("ds_"):
        return "lds"
    if name.startswith(("global_", "flat_", "scratch_", "buffer_")):
        if re.match(r"global_(wb|inv)|buffer_(wb|inv|gl)", name):
            return "fence"
        if "atomic" in name:
            return "atomic"
        return "store" if "_store" in name else "load"
    if name.startswith(("s_load", "s_buffer_load", "s_scratch_load")):
        return "smem"
    if name.startswith("s_barrier"):
        return "barrier"
    if name.startswith("s_wait"):
        return "wait"
    if name.startswith(("s_cbranch", "s_branch", "s_setpc", "s_swappc", "s_call")):
        return "branch"
    if name.startswith("s_endpgm"):
        return "end"
    if re.match(r"s_(nop|clause|delay_alu|sendmsg|sleep|setprio|set_inst|inst_prefetch|code_end|icache|dcache|prefetch)", name):
        return "hint"
    return "salu" if name.startswith("s_") else "other"


def access_bytes(name, kind):
    """Bytes of a lane's access."""
    if kind not in ("lds", "load", "store", "atomic", "smem"):
        return 0
    words = name.removesuffix("_d16_hi").removesuffix("_d16").replace("_d16_hi_", "_").replace("_d16_", "_").split("_")
    size = next((BYTES[word] for word in reversed(words) if word in BYTES), 4)
    return size * 2 if re.match(r"ds_(load|read|store|write)2|ds_(load|store)_2addr", name) else size


def registers_of(instruction):
    """(read, written) registers, implicit ones included."""
    name, operands, kind = instruction.name, instruction.operands, instruction.kind
    if kind in ("wait", "hint", "barrier", "end", "fence"):
        return (), ()
    destinations = 0 if NO_DESTINATION.match(name) or kind == "branch" else 1
    if kind == "atomic" and not re.search(r"\bglc\b|\bsc0\b|TH_ATOMIC_RETURN", instruction.modifiers):
        destinations = 0
    if name.startswith("v_cmpx"):  # without a destination since RDNA
        destinations = len(operands) - 2
    if re.match(r"v_(add|sub|subrev|addc|subb|subbrev)_co|v_mad_(co_)?[iu]64|v_div_scale", name) and len(operands) > 3:
        destinations = 2
    if kind == "lds" and not re.match(r"ds_(load|read|bpermute|permute|swizzle|consume|append)|.*_rtn", name):
        destinations = 0
    written = [r for o in operands[:destinations] for r in o.registers()]
    read = [r for o in operands[destinations:] for r in o.registers()]
    if READS_DESTINATION.search(name) or instruction.suffix == "_dpp":
        read += written
    if name.startswith("v_cmpx"):
        written += [EXEC, EXEC + 1]
    if re.match(r"s_cbranch_(scc|cselect)|s_cselect|s_addc|s_subb|s_add_co_ci|s_sub_co_ci|s_cmov", name):
        read.append(SCC)
    if name.startswith("s_cbranch_vcc"):
        read += [VCC, VCC + 1]
    if name.startswith("s_cbranch_exec") or "saveexec" in name:
        read += [EXEC, EXEC + 1]
    if kind == "salu":
        if name.startswith(("s_cmp", "s_bitcmp")) or re.match(r"s_(add|sub|and|or|xor|andn|orn|and_not|lsh|ash|bfe|min|max|not|nand|nor|xnor|bcnt|abs)", name):
            written.append(SCC)
        if "saveexec" in name:
            written += [EXEC, EXEC + 1]
    return tuple(r for r in read if r != NULL), tuple(r for r in written if r != NULL)


def parse_part(text):
    name, _, rest = text.strip().partition(" ")
    suffix = re.search(r"(_e32|_e64)?(_dpp|_sdwa)?$", name)[0]
    name = name.removesuffix(suffix)
    operands, modifiers = split_operands(rest)
    return name, "_dpp" if suffix.endswith("_dpp") else "", [parse_operand(o) for o in operands], modifiers


def parse_line(line):
    code, _, comment = line.rpartition("//")
    address, words = comment.strip().split(":", 1)
    hexadecimal = re.match(r"[0-9A-F ]+", words.strip())[0].split()
    texts = code.strip().split(" :: ")
    name, suffix, operands, modifiers = parse_part(texts[0])
    instruction = Instruction(int(address, 16), 4 * len(hexadecimal), name, operands, modifiers, kind_of(name), suffix=suffix)
    instruction.bytes = access_bytes(name, instruction.kind)
    if len(texts) == 2:
        parts = []
        for text in texts:
            part_name, _, part_operands, _ = parse_part(text)
            part_name = part_name.replace("v_dual_", "v_")
            part = Instruction(instruction.address, 0, part_name, part_operands, "", kind_of(part_name))
            part.reads, part.writes = registers_of(part)
            parts.append(part)
        instruction.parts = tuple(parts)
        instruction.reads = parts[0].reads + parts[1].reads
        instruction.writes = parts[0].writes + parts[1].writes
    else:
        instruction.reads, instruction.writes = registers_of(instruction)
    if instruction.kind == "branch" and operands and isinstance(operands[0].value, int):
        distance = operands[0].value & 0xffff
        instruction.target = instruction.address + 4 + 4 * (distance - 0x10000 if distance & 0x8000 else distance)
    return instruction


def find_objdump():
    for name in ("llvm-objdump-19", "llvm-objdump-20", "llvm-objdump-21"):
        if path := shutil.which(name):
            return path
    raise Unknown("llvm-objdump-19 is missing (Debian: llvm-19)")


def disassemble(path, kernel=None):
    """The instructions of one kernel (or of the whole object), in their order in memory."""
    chosen = [f"--disassemble-symbols={kernel}"] if kernel else []
    done = subprocess.run([find_objdump(), "-d", *chosen, str(path)], capture_output=True, text=True)
    if done.returncode:
        raise Unknown(f"{path}: {done.stderr.strip().splitlines()[-1] if done.stderr.strip() else 'cannot be disassembled'}")
    lines = [line for line in done.stdout.splitlines() if line.startswith("\t") and "//" in line]
    if not lines:
        raise Unknown(f"{path}: no kernel '{kernel}'")
    return [parse_line(line) for line in lines]
