"""The hazard of scalar registers on RDNA4 (gfx1200, gfx1201), found in instructions.

A vector instruction (VALU) that reads a scalar register keeps a copy of its pair (s0 and s1, s2 and s3, ...). What is written to a
register of that pair later may be missed by the next reader, unless `s_wait_alu` stands between:
  - written by a scalar instruction (SALU), then read by either: field sa_sdst;
  - written by a vector instruction, then read by a vector instruction: field va_sdst, for VCC va_vcc. Scalar readers are held by the
    hardware.
A scalar load also waits for both. Calls and returns need all three, for the other side does not know what is pending. EXEC, M0, SCC
and the null register are not affected. Whether a pair was read and what is pending at an instruction is computed for every path
to it: what any path has read counts as read. LLVM's pass AMDGPUWaitSGPRHazards states the same facts; this one never counts on
memory instructions but scalar loads, nor on the distance.
"""
import dataclasses
import functools
import re

from code_flow import Problem, blocks_of, states_of

SA_SDST, VA_VCC, VA_SDST = 0x0001, 0x0002, 0x0E00  # fields of the operand of s_wait_alu; zeros in a field: wait
REGISTERS = 128
ALL = (1 << REGISTERS) - 1
EVEN = ALL // 3
VCC = 3 << 106

VALU, SALU, SCALAR_LOAD, WAIT, CALL, OTHER = range(6)
MEMORY = ("global_", "flat_", "scratch_", "buffer_", "tbuffer_", "image_", "ds_", "lds_", "export", "exp")
SCALAR_LOADS = ("s_load_", "s_buffer_load_")
# Scalar instructions whose first operand is not a result.
WITHOUT_RESULT = ("s_cmp", "s_bitcmp", "s_cbranch", "s_branch", "s_wait", "s_delay_alu", "s_nop", "s_barrier", "s_sendmsg", "s_endpgm", "s_clause",
                  "s_sleep", "s_setreg", "s_setprio", "s_setpc", "s_sethalt", "s_code_end", "s_icache", "s_dcache", "s_trap", "s_prefetch",
                  "s_buffer_prefetch", "s_set_", "s_round_mode", "s_denorm_mode", "s_ttrace", "s_incperf", "s_decperf", "s_singleuse", "s_alloc")
WITH_RESULT = ("s_sendmsg_rtn",)  # although one of WITHOUT_RESULT begins so
READS_RESULT = ("s_addk", "s_mulk", "s_cmov", "s_bitset", "s_fmac")
UNKNOWN_REGISTERS = ("s_movrel",)  # M0 says which
CALLS = ("s_swappc", "s_call", "s_setpc", "s_rfe")
REGISTER = re.compile(r"(?<![\w.])(?:(s|ttmp)(?:(\d+)|\[(\d+):(\d+)\])|(vcc(?:_lo|_hi)?))(?![\w@])")
FIRST = {"s": 0, "ttmp": 108}
VCC_NAMES = {"vcc": VCC, "vcc_lo": 1 << 106, "vcc_hi": 1 << 107}
NAME = re.compile(r"[a-z][a-z0-9_]*")


@dataclasses.dataclass(frozen=True, slots=True)
class Instruction:
    name: str
    kind: int
    uses: int  # a bit for each scalar register
    defines: int
    read_pairs: int  # both registers of each pair that a vector instruction reads
    waits: int = 0  # of s_wait_alu: the fields that are zero
    target: str = ""  # a branch's label


def registers(text):
    mask = 0
    for bank, number, first, last, vcc in REGISTER.findall(text):
        if vcc:
            mask |= VCC_NAMES[vcc]
        else:
            low, high = (int(number), int(number)) if number else (int(first), int(last))
            mask |= ((2 << high - low) - 1) << FIRST[bank] + low
    return mask


def fields_waited_for(operand):
    """Of s_wait_alu: 0xfffe, or depctr_sa_sdst(0) depctr_va_vcc(0)."""
    named = dict(re.findall(r"(?:depctr_)?(\w+)\((\d+)\)", operand))
    if named:
        return sum(field for name, field in (("sa_sdst", SA_SDST), ("va_vcc", VA_VCC), ("va_sdst", VA_SDST)) if named.get(name) == "0")
    value = int(operand, 0)
    return sum(field for field in (SA_SDST, VA_VCC, VA_SDST) if not value & field)


def _vector(name, operands):
    results = 0 if name.startswith(("v_cmpx", "v_nop")) else 2 if "_co_" in name or name.startswith("v_div_scale") else 1
    parts = operands.split(",", results)
    uses = registers(parts[results]) if len(parts) > results else 0
    if name.startswith(("v_div_fmas", "v_dual_cndmask")):  # VCC is not written out
        uses |= VCC
    return uses, registers(",".join(parts[:results]))


def _scalar(name, operands):
    if name.startswith(WITHOUT_RESULT) and not name.startswith(WITH_RESULT):
        return registers(operands) | (VCC if name.startswith("s_cbranch_vcc") else 0), 0
    result, _, rest = operands.partition(",")
    defines = registers(result)
    return registers(rest) | (defines if name.startswith(READS_RESULT) else 0), defines


@functools.lru_cache(maxsize=1 << 16)
def parse(text):
    """An instruction without its comment. Throws Problem for one of an unknown kind."""
    halves = [half.partition(" ") for half in text.replace("\t", " ").split(" :: ")]
    name, _, operands = halves[0]
    if name.startswith("v_") and NAME.fullmatch(name):
        both = [_vector(half.strip(), rest) for half, _, rest in halves]
        uses, defines = functools.reduce(int.__or__, (one[0] for one in both)), functools.reduce(int.__or__, (one[1] for one in both))
        return Instruction(name, VALU, uses, defines, uses | (uses & EVEN) << 1 | uses >> 1 & EVEN)
    if name == "s_wait_alu":
        return Instruction(name, WAIT, 0, 0, 0, waits=fields_waited_for(operands.strip()))
    if name.startswith(SCALAR_LOADS):
        return Instruction(name, SCALAR_LOAD, 0, 0, 0)
    if name.startswith(MEMORY):
        return Instruction(name, OTHER, 0, 0, 0)
    if not name.startswith("s_") or not NAME.fullmatch(name) or name.startswith(UNKNOWN_REGISTERS):
        raise Problem(f"the instruction '{text}' is not one whose scalar registers are known")
    uses, defines = _scalar(name, operands)
    target = operands.strip() if name.startswith(("s_branch", "s_cbranch")) else ""
    return Instruction(name, CALL if name.startswith(CALLS) else SALU, uses, defines, 0, target=target)


def advance(state, instructions, first, end, found=None):
    """The state after these instructions; appends (index, fields to wait for) of each that needs a wait to `found`."""
    tracked, by_scalar, by_vector = state
    for index in range(first, end):
        one = instructions[index]
        kind, wait = one.kind, one.waits
        if kind == VALU or kind == SALU:
            if by_scalar & one.uses:
                wait = SA_SDST
            if kind == SALU:
                by_vector &= ~one.uses
            elif late := by_vector & one.uses:
                wait |= (VA_VCC if late & VCC else 0) | (VA_SDST if late & ~VCC else 0)
        elif kind == CALL:
            wait = (SA_SDST if by_scalar else 0) | (VA_VCC if by_vector & VCC else 0) | (VA_SDST if by_vector & ~VCC else 0)
        elif kind == SCALAR_LOAD:
            by_scalar = by_vector = 0
        if wait:
            if found is not None and kind != WAIT:
                found.append((index, wait))
            by_scalar = 0 if wait & SA_SDST else by_scalar
            by_vector &= ~((VCC if wait & VA_VCC else 0) | (ALL & ~VCC if wait & VA_SDST else 0))
        if kind == VALU:
            tracked |= one.read_pairs
            by_vector |= one.defines & tracked
        elif kind == CALL:
            tracked = ALL  # by the function called, if it comes back
        if kind == SALU or kind == CALL:
            by_scalar |= one.defines & tracked
    return tracked, by_scalar, by_vector


def places(function):
    """(index of the instruction, fields that it must wait for), ascending: each place that lacks a wait, given those before it."""
    instructions, blocks = function.instructions, blocks_of(function)
    if not blocks:
        return []
    # What calls this function has read unknown registers.
    entry = states_of(blocks, (0 if function.is_kernel else ALL, 0, 0), lambda state, first, end: advance(state, instructions, first, end),
                      lambda known, other: tuple(a | b for a, b in zip(known, other)))
    found = []
    for state, (first, end, _) in zip(entry, blocks):
        # What no path reaches is treated as though all could.
        advance(state if state is not None else (ALL, ALL, ALL), instructions, first, end, found)
    return found
