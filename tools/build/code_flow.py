"""Functions of instructions, their blocks, and what holds at each block on every path to it.

An instruction has a `name`, and a `target`: a branch's label, else empty.
"""
import dataclasses

ENDS = ("s_branch", "s_endpgm", "s_setpc", "s_rfe")


class Problem(Exception):
    """One line for a person."""


@dataclasses.dataclass
class Function:
    name: str
    is_kernel: bool
    instructions: list = dataclasses.field(default_factory=list)
    labels: dict = dataclasses.field(default_factory=dict)  # name: index of the instruction that follows


def blocks_of(function):
    """(first, end, indices of the blocks that may follow) in order."""
    instructions, count = function.instructions, len(function.instructions)
    starts = {0, *function.labels.values()}
    starts.update(i + 1 for i, one in enumerate(instructions) if one.target or one.name.startswith(ENDS))
    starts = sorted(start for start in starts if start < count)
    number = {start: i for i, start in enumerate(starts)}
    blocks = []
    for first, end in zip(starts, [*starts[1:], count]):
        last, following = instructions[end - 1], []
        if last.target:
            if function.labels.get(last.target, count) >= count:
                raise Problem(f"{function.name}: '{last.name} {last.target}' leads out of the function")
            following.append(number[function.labels[last.target]])
        elif last.name.startswith("s_setpc"):  # a return, or a jump to any label
            following += [number[at] for at in set(function.labels.values()) if at < count]
        if not last.name.startswith(ENDS) and end < count:
            following.append(number[end])
        blocks.append((first, end, following))
    return blocks


def states_of(blocks, first, advance, merge):
    """The state at each block's start, of all paths to it together; None: no path reaches it. `first`: at the function's start.
    advance(state, first, end): the state after these instructions. merge(state, other): what holds if either may."""
    entry = [None] * len(blocks)
    entry[0] = first
    pending = [0]
    while pending:
        begin, end, following = blocks[block := pending.pop()]
        after = advance(entry[block], begin, end)
        for next_block in following:
            known = entry[next_block]
            merged = after if known is None else merge(known, after)
            if merged != known:
                entry[next_block] = merged
                if next_block not in pending:
                    pending.append(next_block)
    return entry
