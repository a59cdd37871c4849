"""What must stand between two instructions on CDNA (gfx90a, gfx942, gfx950), by AMD's tables of manually inserted wait states.

An instruction is a wait state, `s_nop N` is N + 1. LLVM's GCNHazardRecognizer puts them in; this finds where one is missing, in what it
has made. A rule is about an earlier instruction (Earlier: what it has written or reads late, and how many wait states ago) and a later one.
What every path to an instruction leaves pending counts.

Not here, for kernels contain nothing of it (the scan refuses it): products of f64, what reads M0 late (messages, loads to shared memory),
indexed scalar moves, the mode register. Not here, for the memory of kernels is never moved while they run: loads that can't be repeated after
a page fault (XNACK). Not here, for it is no distance: waits for loads.
"""
import dataclasses
import functools
import re

from code_flow import Problem, blocks_of, states_of
from operands import EXEC, LDS, MATRIX, MEMORY, SCALAR, SCALAR_LOAD, SCALARS, VALU, VCC

VECTORS = ~SCALARS
FARTHEST = 20  # no rule looks back farther, in instructions
TRANSCENDENTAL = re.compile(r"v_(exp|log|rcp|rsq|sqrt|sin|cos)_")
DOT = re.compile(r"v_dot")
WIDE_STORE = re.compile(r"(global|flat|scratch|buffer)_(store_(dwordx[34]|format_xyzw?)|atomic_(cmpswap_x2|pk_\w+_x2))")
LANES = ("v_readlane", "v_readfirstlane", "v_writelane")
NOT_HERE = ("v_mfma_f64", "v_smfmac", "s_sendmsg", "s_ttracedata", "s_movrel", "s_setreg", "s_getreg", "s_rfe", "v_interp",
            "ds_read_addtid", "ds_write_addtid", "s_set_gpr_idx", "v_movrel")
# How many passes a matrix instruction takes: by its name.
PASSES = {"gfx90a": ((re.compile(r"v_mfma_\w+_16x16x16(f16|bf16_1k|i8)"), 8),),
          "gfx942": ((re.compile(r"v_mfma_\w+_16x16x(16_(f16|bf16)|32_(i8|fp8_fp8))"), 4),),
          "gfx950": ((re.compile(r"v_mfma_\w+_16x16x(16_(f16|bf16)|32_(i8|f16|bf16|fp8_fp8)|64_i8)"), 4),)}


@dataclasses.dataclass(frozen=True, slots=True)
class Card:
    """`name`: gfx90a, gfx942 or gfx950. An object for several has the rules of each."""
    name: str

    @property
    def is_cdna3(self):
        return self.name != "gfx90a"

    def passes(self, name):
        for pattern, passes in PASSES[self.name]:
            if pattern.fullmatch(re.sub(r"_e64$", "", name)):
                return passes
        raise Problem(f"how many passes '{name}' takes on {self.name} is not known")


@dataclasses.dataclass(frozen=True, slots=True)
class Earlier:
    what: str  # VALU, matrix, matrix's sum, store
    registers: int
    name: str  # of the instruction
    longest: int  # wait states after which no rule asks for it
    special: tuple = ()  # of VALU: transcendental, partial, dot
    passes: int = 0


@functools.lru_cache(maxsize=1 << 18)
def leaves(one, card):
    """What an instruction leaves for later ones to wait for."""
    if one.kind == MATRIX:
        passes, sum_registers = card.passes(one.name), one.sources[2] & VECTORS
        found = [Earlier("matrix", one.defines, one.name, passes + 4, passes=passes)]
        return (*found, Earlier("matrix's sum", sum_registers, one.name, passes - 1, passes=passes)) if sum_registers else tuple(found)
    if one.kind == VALU:
        words = ("transcendental", TRANSCENDENTAL.match(one.name)), ("partial", one.partial), ("dot", DOT.match(one.name))
        special = tuple(word for word, holds in words if holds)
        return (Earlier("VALU", one.defines, one.name, 5 if one.defines & SCALARS else 3 if special else 2, special),) if one.defines else ()
    if one.kind == MEMORY and WIDE_STORE.match(one.name):
        data = one.sources[0 if one.name.startswith("buffer_") else 1]
        return (Earlier("store", data, one.name, 2 if card.is_cdna3 else 1),)
    return ()


def _after_valu(earlier, one, card):
    """(wait states, why) that a later instruction needs after a vector instruction that is no matrix instruction."""
    written, scalars, vectors = earlier.registers, earlier.registers & SCALARS & ~EXEC, earlier.registers & VECTORS
    if one.kind == MEMORY:
        if written & one.uses & SCALARS:
            yield 5, "a vector instruction's scalar as an address"
    if one.kind == MATRIX:
        if written & EXEC:
            yield 4, "EXEC before a matrix instruction"
        if vectors & one.uses and "dot" not in earlier.special:
            yield 2, "a vector instruction's result in a matrix instruction"
    if "dot" in earlier.special and one.kind in (VALU, MEMORY, LDS):
        if one.name != earlier.name:
            if vectors & (one.uses | one.defines):
                yield 3, "a dot product's result in another instruction"
        elif vectors & (one.sources[0] | one.sources[1]):
            yield 3, "a dot product's result as a factor"
    if one.kind != VALU:
        return
    if one.name.startswith("v_div_fmas") and written & VCC:
        yield 4, "VCC before v_div_fmas"
    if one.dpp:
        if vectors & one.uses:
            yield 2, "a result that other lanes read"
        if written & EXEC:
            yield 5, "EXEC before an exchange of lanes"
    if one.name.startswith(("v_readlane", "v_writelane")) and scalars & one.sources[1]:
        yield 4, "a lane's number"
    if card.is_cdna3:
        yield from _after_valu_on_cdna3(earlier, one, scalars, vectors)


def _after_valu_on_cdna3(earlier, one, scalars, vectors):
    if "transcendental" in earlier.special and not TRANSCENDENTAL.match(one.name) and vectors & one.uses:
        yield 1, "a transcendental result"
    if "partial" in earlier.special and vectors & one.uses:
        yield 1, "a part of a register"
    if scalars & one.uses:
        yield 2, "a vector instruction's scalar in a vector instruction"
    if one.name.startswith(LANES):
        if earlier.registers & EXEC:
            yield 4, "EXEC before a lane is read or written"
        if not one.name.startswith("v_writelane") and vectors & one.sources[0]:
            yield 1, "a result of which a lane is read"


def _after_matrix(earlier, one, card):
    passes, longer = earlier.passes, card.name == "gfx950"
    if one.kind == MATRIX:
        if earlier.registers & (one.sources[0] | one.sources[1]):
            yield passes + 3 + longer, "a matrix product as a factor"
        elif earlier.registers & one.sources[2] and (earlier.registers != one.sources[2] or longer and earlier.name != one.name):
            yield (passes + 1 + longer if card.is_cdna3 else passes), "a part of a matrix product, or another instruction's, as a sum"
    elif one.kind in (VALU, MEMORY, LDS) and earlier.registers & (one.uses | one.defines):
        yield passes + 3 + longer, "a matrix product outside of matrix instructions"


@functools.lru_cache(maxsize=1 << 20)
def needed(earlier, one, card):
    """(wait states, why) between both; (0, "") where none are needed."""
    if earlier.what == "VALU":
        found = list(_after_valu(earlier, one, card))
    elif earlier.what == "matrix":
        found = list(_after_matrix(earlier, one, card))
    elif one.kind in (VALU, MATRIX) and earlier.registers & one.defines:
        if earlier.what == "store":
            found = [(2 if card.is_cdna3 else 1, "the data of a wide store")]
        else:
            found = [(earlier.passes - 1, "the sum that a matrix instruction reads")] if one.kind == VALU else []
    else:
        found = []
    return max(found, default=(0, ""))


def _worst(one, pending, clock, card):
    """(wait states that are missing, why) before an instruction."""
    reach, worst = one.uses | one.defines | EXEC, (0, "")
    for earlier, born in pending:
        if earlier.registers & reach:
            states, why = needed(earlier, one, card)
            worst = max(worst, (states - (clock - born), why))
    return worst


def advance(state, instructions, begin, end, card, found=None):
    """`state`: {Earlier: its age in wait states}. Appends (index, wait states that are missing, why) of each place to `found`."""
    if found is None and end - begin > FARTHEST:
        state, begin = {}, end - FARTHEST
    pending, clock = [(earlier, -age) for earlier, age in state.items()], 0
    for index in range(begin, end):
        one = instructions[index]
        if one.name.startswith(NOT_HERE):
            raise Problem(f"'{one.name}' has hazards that are not looked for")
        if pending:
            pending = [(earlier, born) for earlier, born in pending if clock - born < earlier.longest]
            if found is not None and one.kind not in (SCALAR, SCALAR_LOAD) and (worst := _worst(one, pending, clock, card))[0] > 0:
                found.append((index, *worst))
        clock += one.number + 1 if one.name == "s_nop" else 1
        pending += [(earlier, clock) for earlier in leaves(one, card)]
    return {earlier: clock - born for earlier, born in pending if clock - born < earlier.longest}  # the last of equal ones is the youngest


def merge(state, other):
    return {earlier: min(state.get(earlier, 99), other.get(earlier, 99)) for earlier in state.keys() | other.keys()}


def places(function, card):
    """(index of the instruction, wait states that are missing, why), ascending."""
    instructions, blocks = function.instructions, blocks_of(function)
    if not blocks:
        return []
    entry = states_of(blocks, {}, lambda state, begin, end: advance(state, instructions, begin, end, card), merge)
    found = []
    for state, (begin, end, _) in zip(entry, blocks):
        advance(state or {}, instructions, begin, end, card, found)
    return found
