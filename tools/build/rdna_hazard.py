"""What must stand between two instructions on RDNA (gfx11, gfx12) beside what the hardware waits for itself, as LLVM's GCNHazardRecognizer has it.
gfx12's scalar registers are in gfx12_hazard.py.

  - gfx11.0: a transcendental result that a vector instruction reads, fewer than six vector instructions and two transcendental ones later:
    `s_waitcnt_depctr` with a zero of va_vdst between, or an access to memory, which waits for it.
  - gfx11, gfx12: a matrix product that is a factor of a later one: a vector instruction between.
  - gfx11: v_cmpx, then v_permlane16 or v_permlanex16: a vector instruction between that is no v_nop.
  - gfx11: a product of 64 bits writes no register that it reads.

Hazards of waves of 64 alone are not here: the scan refuses kernels of such waves. Loads from shared memory to a vector instruction
(lds_direct) are refused.
"""
import dataclasses
import re

from code_flow import Problem, blocks_of, states_of
from gfx9_hazard import TRANSCENDENTAL
from operands import EXEC, LDS, MATRIX, MEMORY, SCALARS, VALU

MOST_VECTOR, MOST_TRANSCENDENTAL = 5, 1  # between a transcendental instruction and one that still has to wait
VA_VDST = 0xF000  # of s_waitcnt_depctr's operand
WIDE_PRODUCT = re.compile(r"v_mad_[ui]64_[ui]32")
EXCHANGE = re.compile(r"v_permlanex?(16|64)_")
NOT_HERE = ("lds_", "ds_param", "ds_direct", "exp")


@dataclasses.dataclass(frozen=True, slots=True)
class Card:
    """What an architecture's rules are: `transcendental` on gfx11.0, `exchange` and `wide_product` on gfx11."""
    transcendental: bool
    exchange: bool
    wide_product: bool


@dataclasses.dataclass(frozen=True, slots=True)
class State:
    """Which vector registers hold results that are late: {mask: (vector, transcendental instructions since)}."""
    transcendental: tuple = ()
    products: int = 0  # registers of matrix products since the last vector instruction
    compared: bool = False  # v_cmpx since the last vector instruction


NOTHING = State()


def _faults(one, state, card):
    vectors = one.uses & ~SCALARS
    if card.transcendental and any(mask & vectors for mask, _, _ in state.transcendental):
        yield "a transcendental result"
    if one.kind == MATRIX and state.products & (one.sources[0] | one.sources[1]):
        yield "a matrix product as a factor"
    if card.exchange and state.compared and EXCHANGE.match(one.name):
        yield "v_cmpx before an exchange of lanes"
    # The upper half of the sum may be in the result: there the compiler needs the lower half alone, and the upper one is undefined.
    if card.wide_product and WIDE_PRODUCT.match(one.name) and one.defines & (one.sources[0] | one.sources[1] | one.sources[2] & -one.sources[2]):
        yield "a product of 64 bits in a register that it reads"


def _after(one, state):
    if one.kind in (MEMORY, LDS) or one.name == "s_waitcnt_depctr" and not one.number & VA_VDST:
        return dataclasses.replace(state, transcendental=())
    if one.kind not in (VALU, MATRIX):
        return state
    is_transcendental = TRANSCENDENTAL.match(one.name) is not None
    if state is NOTHING and one.kind == VALU and not is_transcendental and not one.defines & EXEC:
        return state
    late = [(mask, vector + 1, other + is_transcendental) for mask, vector, other in state.transcendental
            if vector < MOST_VECTOR and other + is_transcendental <= MOST_TRANSCENDENTAL]
    if is_transcendental:
        late.append((one.defines, 0, 0))
    products, compared = one.defines if one.kind == MATRIX else 0, one.defines & EXEC != 0 or state.compared and one.name.startswith("v_nop")
    return State(tuple(sorted(late)), products, compared) if late or products or compared else NOTHING


def advance(state, instructions, begin, end, card, found=None):
    """Appends (index, why) of each place to `found`."""
    for index in range(begin, end):
        one = instructions[index]
        if one.name.startswith(NOT_HERE):
            raise Problem(f"'{one.name}' has hazards that are not looked for")
        if found is not None and one.kind in (VALU, MATRIX):
            found += [(index, why) for why in _faults(one, state, card)]
        state = _after(one, state)
    return state


def merge(state, other):
    return State(tuple(sorted({*state.transcendental, *other.transcendental})), state.products | other.products, state.compared or other.compared)


def places(function, card):
    """(index of the instruction, why) of each that comes too early, ascending."""
    instructions, blocks = function.instructions, blocks_of(function)
    if not blocks:
        return []
    entry = states_of(blocks, NOTHING, lambda state, begin, end: advance(state, instructions, begin, end, card), merge)
    found = []
    for state, (begin, end, _) in zip(entry, blocks):
        advance(state or NOTHING, instructions, begin, end, card, found)
    return found
