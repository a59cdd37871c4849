"""Memory instructions of a traced wave: their lanes' addresses, and what they load where the launch says it."""
import re

import numpy as np

from .isa import VECTOR
from .memory import global_access, lds_access, unknown_access

TWO_ADDRESSES = re.compile(r"ds_(load|read|store|write)_?2")
EXCHANGE = re.compile(r"ds_b?permute|ds_swizzle")


def access(wave, instruction):
    wave.accesses[-1] = shared(wave, instruction) if instruction.kind == "lds" else in_memory(wave, instruction)


def in_memory(wave, instruction):
    size, line, lanes = instruction.bytes, wave.timing.line, int(wave.active.sum())
    addresses = addresses_of(wave, instruction)
    if lanes == 0:
        found = global_access(np.zeros(1, np.int64), 1, line)
        found.bytes = found.sectors = 0
    elif addresses is None or wave.doubt is not None:
        addresses = None
        found = unknown_access(size, lanes, line)
        found.known = found.private = instruction.name.startswith("scratch_")
    else:
        found = global_access(addresses[wave.active], size, line)
    if instruction.kind == "load" or instruction.writes:
        destination, wave.doubt = instruction.operands[0], None
        wave.forget(destination)
        if addresses is not None and loads_short(instruction) and lanes:
            values = wave.launch.gather_shorts(addresses, wave.active)
            if values is not None:
                wave.write_vector(destination.register, values)
        elif addresses is not None and instruction.kind == "load" and size in (4, 8, 16) and lanes:
            for part, value in enumerate(wave.launch.gather(addresses, wave.active, size // 4) or ()):
                wave.write_vector(destination.register + part, value)
    return found


def loads_short(instruction):
    """Loads that leave 16 bits and zeros above: sizes of work-groups come by them."""
    return instruction.kind == "load" and instruction.name in ("global_load_u16", "global_load_ushort", "flat_load_u16", "flat_load_ushort")


def addresses_of(wave, instruction):
    """Byte addresses of the lanes, or None."""
    operands, name = instruction.operands, instruction.name
    if name.startswith(("buffer_", "scratch_")):
        return None
    rest = operands[1:] if instruction.kind == "load" or instruction.writes else operands
    vector, base, offset = rest[0], rest[-1] if name.startswith("global_") else None, instruction.option("offset")
    if base is not None and base.register is not None and base.register < VECTOR:
        start, lane = wave.pair(base), wave.word(vector)
        if start is None or lane is None:
            return None
        return np.broadcast_to(np.asarray(start).astype(np.int64) + np.asarray(lane).astype(np.int64) + offset, wave.lanes)
    value = wave.pair(vector)
    return None if value is None else np.broadcast_to(np.asarray(value).astype(np.int64) + offset, wave.lanes)


def shared(wave, instruction):
    name, operands, lanes = instruction.name, instruction.operands, int(wave.active.sum())
    address = wave.word(operands[1 if instruction.writes else 0])
    if EXCHANGE.match(name):
        found = unknown_access(4, lanes, wave.timing.line)
        found.lds_cycles = found.lds_least = wave.lanes // 32
        found.known = True
    elif address is None or wave.doubt is not None or not lanes:
        found = unknown_access(instruction.bytes, lanes, wave.timing.line)
        found.lds_cycles = found.lds_least = max(1, -(-instruction.bytes * lanes // wave.timing.lds_bytes))
        found.known = not lanes
    else:
        size, offsets = instruction.bytes, (instruction.option("offset"),)
        if TWO_ADDRESSES.match(name):
            size //= 2
            step = size * 64 if "st64" in name or "stride64" in name else size
            offsets = (instruction.option("offset0") * step, instruction.option("offset1") * step)
        found = lds_access(np.where(wave.active, np.asarray(address).astype(np.int64), -1), size, offsets)
    if instruction.writes:
        wave.forget(operands[0])
    return found
