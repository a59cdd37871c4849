"""What one access of a wave touches: lines of memory, banks of shared memory."""
import dataclasses

import numpy as np

SECTOR = 32  # bytes that DRAM moves at least


@dataclasses.dataclass
class Access:
    bytes: int = 0  # of all lanes
    lines: tuple = ()  # numbers of the cache lines
    sectors: int = 0
    lds_cycles: int = 0
    lds_least: int = 0  # without a conflict
    known: bool = True
    private: bool = False  # a wave's own scratch: neighbouring lanes' words lie side by side, and it stays in the caches
    first: int = 0  # lowest address: compared between work-groups


BANKS, BANK_BYTES = 32, 4


def lds_access(addresses, size, offsets=(0,)):
    """Cycles of an access of `size` bytes a lane (of each of `offsets`) by the lanes' addresses, negative where one is not active. A wave goes in groups of lanes that take
    one cycle without a conflict: 32 lanes of 4 bytes, 16 of 8, 8 of 16. Lanes that want the same word share it."""
    cycles = least = total = 0
    group = max(8, BANKS * BANK_BYTES // max(size, BANK_BYTES)) if size != 12 else 8
    for offset in offsets:
        for start in range(0, len(addresses), group):
            part = addresses[start:start + group]
            part = (part[part >= 0] + offset) // BANK_BYTES
            if not len(part):
                continue
            words = np.unique((part[:, None] + np.arange(max(1, size // BANK_BYTES))).ravel())
            cycles += int(np.bincount(words % BANKS).max())
            least += 1
        total += size * int((addresses >= 0).sum())
    return Access(bytes=total, lds_cycles=cycles, lds_least=least)


def global_access(addresses, size, line):
    start = addresses.astype(np.int64)
    ends = start + size - 1
    lines = np.unique(np.concatenate([start // line, ends // line]))
    sectors = np.unique((start[:, None] + np.arange(0, max(size, 1), SECTOR)).ravel() // SECTOR) if size > SECTOR else \
        np.unique(np.concatenate([start // SECTOR, ends // SECTOR]))
    return Access(bytes=size * len(addresses), lines=tuple(lines.tolist()), sectors=len(sectors), first=int(start.min()))


def unknown_access(size, lanes, line):
    """An access whose addresses are not known: as one of neighbouring lanes."""
    total = size * lanes
    return Access(bytes=total, lines=(None,) * max(1, -(-total // line)), sectors=-(-total // SECTOR), known=False)
