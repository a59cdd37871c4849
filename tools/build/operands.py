"""Which registers an instruction of gfx9 to gfx12 reads and writes, from its text in a disassembly.

Sets of registers are integers with a bit for each: scalars (VCC, EXEC and M0 by their numbers), then V registers, then A registers.
"""
import dataclasses
import functools
import re

from code_flow import Problem

VALU, MATRIX, MEMORY, LDS, SCALAR_LOAD, SCALAR = range(6)
VCC, EXEC, M0 = 3 << 106, 3 << 126, 1 << 124
SCALARS = (1 << 128) - 1
FIRST = {"s": 0, "ttmp": 108, "v": 128, "a": 384}
NAMED = {"vcc": VCC, "vcc_lo": 1 << 106, "vcc_hi": 1 << 107, "exec": EXEC, "exec_lo": 1 << 126, "exec_hi": 1 << 127, "m0": M0}
REGISTER = re.compile(r"(?<![\w.])(?:(ttmp|[vas])(?:(\d+)|\[(\d+):(\d+)\])|(vcc(?:_lo|_hi)?|exec(?:_lo|_hi)?|m0))(?![\w@:])")
MATRIX_NAMES = ("v_mfma_", "v_smfmac_", "v_wmma_", "v_swmmac_")
VECTOR_MEMORY = ("global_", "flat_", "scratch_", "buffer_")
SCALAR_LOADS = ("s_load_", "s_buffer_load_")
# Memory instructions whose first operand is written.
LOADS = re.compile(r"(global|flat|scratch|buffer)_load_|ds_(read|load|bpermute|permute|swizzle)|ds_\w+_rtn_")
TWO_RESULTS = re.compile(r"v_\w*_co_|v_div_scale_|v_mad_[ui]64_[ui]32")
# Vector instructions that read what they write.
KEEPS = re.compile(r"v_(dual_)?(pk_)?(fmac|mac|fmaak_acc|dot\d\w*c|dot2acc)_|v_fma_mix(lo|hi)|v_writelane|v_swap|v_smfmac")
UPPER_HALF = re.compile(r"op_sel:\[(?:\d,)+1\]")
NAME = re.compile(r"[a-z][a-z0-9_]*")


@dataclasses.dataclass(frozen=True, slots=True)
class Instruction:
    name: str
    kind: int
    uses: int
    defines: int
    # Of each source of a vector, matrix or memory instruction, in order.
    sources: tuple = ()
    partial: bool = False  # of a vector instruction: it may write a part of its result's register
    dpp: bool = False
    number: int = 0  # of s_nop, s_waitcnt_depctr
    target: str = ""


def registers(text):
    mask = 0
    for bank, number, first, last, name in REGISTER.findall(text):
        if name:
            mask |= NAMED[name]
        else:
            low, high = (int(number), int(number)) if number else (int(first), int(last))
            mask |= ((2 << high - low) - 1) << FIRST[bank] + low
    return mask


def _results(name, operands):
    if name.startswith("v_nop"):
        return 0
    if name.startswith("v_cmp"):  # has two sources; on RDNA v_cmpx has no result that is written out
        return operands.count(",") - 1
    return 2 if TWO_RESULTS.match(name) or name.startswith("v_swap") else 1


def _vector(name, operands):
    parts = operands.split(",")
    count = _results(name, operands)
    defines = registers(",".join(parts[:count]))
    sources = tuple(registers(part) for part in parts[count:])
    uses = functools.reduce(int.__or__, sources, 0)
    upper = UPPER_HALF.search(operands) is not None and not name.startswith(("v_pk_", "v_fma_mix", "v_mad_mix", "v_dot"))
    shifted = "_sdwa" in name and "dst_sel:" in operands and "dst_sel:DWORD" not in operands
    partial = upper or shifted or name.startswith(("v_fma_mixhi", "v_mad_mixhi"))
    dpp = "_dpp" in name
    if KEEPS.match(name) or "UNUSED_PRESERVE" in operands or partial or dpp:
        uses |= defines
    if name.startswith("v_cmpx"):
        defines |= EXEC
    if name.startswith(("v_div_fmas", "v_dual_cndmask")):  # VCC is not written out
        uses |= VCC
    return Instruction(name, MATRIX if name.startswith(MATRIX_NAMES) else VALU, uses, defines, sources, partial, dpp)


def _both(halves):
    """Two instructions that are one."""
    first, second = halves
    return Instruction(first.name, first.kind, first.uses | second.uses, first.defines | second.defines, first.sources + second.sources)


def _memory(name, operands):
    kind = MEMORY if name.startswith(VECTOR_MEMORY) else LDS
    if "_load_lds_" in name or re.search(r"\b(lds|gds)\b", operands):
        raise Problem(f"'{name} {operands}' reads M0 late, which is not looked for")
    parts = [registers(part) for part in operands.split(",")]
    returns = LOADS.match(name) or "atomic" in name and re.search(r"\b(glc|sc0|th:TH_ATOMIC_RETURN)\b", operands)
    defines = parts.pop(0) if returns else 0
    return Instruction(name, kind, functools.reduce(int.__or__, parts, defines if "_d16" in name else 0), defines, tuple(parts))


@functools.lru_cache(maxsize=1 << 18)
def parse(text):
    """An instruction without its comment. Throws Problem for one of an unknown kind."""
    name, _, operands = text.replace("\t", " ").partition(" ")
    operands = operands.strip()
    if not NAME.fullmatch(name):
        raise Problem(f"'{text}' is no instruction that is known")
    if name.startswith("v_"):
        if " :: " in text:
            return _both([_vector(*half.strip().split(" ", 1)) for half in text.split(" :: ")])
        return _vector(name, operands)
    if name.startswith((*VECTOR_MEMORY, "ds_")):
        return _memory(name, operands)
    if not name.startswith("s_"):
        raise Problem(f"the registers of '{text}' are not known")
    if name.startswith(("s_branch", "s_cbranch")):
        return Instruction(name, SCALAR, registers(name.replace("s_cbranch_", "")), 0, target=operands)
    first, _, rest = operands.partition(",")
    number = int(operands, 0) if name in ("s_nop", "s_waitcnt_depctr") else 0
    return Instruction(name, SCALAR_LOAD if name.startswith(SCALAR_LOADS) else SCALAR, registers(rest), registers(first), number=number)
