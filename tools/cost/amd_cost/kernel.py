"""A kernel of a code object, and a launch of it: what it is given."""
import bisect
import math
import pathlib
import struct
import sys

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "build"))
from code_object import CodeObject  # noqa: E402

from . import isa  # noqa: E402
from .chips import TIMINGS  # noqa: E402
from .trace import CODE_BASE  # noqa: E402

FIRST_BUFFER, BUFFER_STEP = 1 << 44, 1 << 36
ARGUMENTS = 1 << 41
MACHINES = {0x3f: "gfx90a", 0x4c: "gfx942", 0x41: "gfx1100", 0x46: "gfx1101", 0x47: "gfx1102", 0x4a: "gfx1151", 0x48: "gfx1200", 0x4e: "gfx1201"}


class Kernel:
    def __init__(self, path, name, architecture=None):
        self.object = CodeObject(pathlib.Path(path).read_bytes())
        names = [known for known in self.object.kernels if known == name] or [known for known in self.object.kernels if name in known]
        if len(names) != 1:
            raise isa.Unknown(f"{path}: {'no kernel' if not names else 'several kernels are'} '{name}'")
        self.name = names[0]
        self.metadata = self.object.kernels[self.name]
        flags, = struct.unpack_from("<I", self.object.raw, 0x30)
        self.architecture = architecture or MACHINES.get(flags & 0xff)
        if self.architecture not in TIMINGS:
            raise isa.Unknown(f"{path}: no timings for its architecture (machine 0x{flags & 0xff:x})")
        self.timing = TIMINGS[self.architecture]
        self.code = isa.disassemble(path, self.name)
        self.places = {instruction.address: i for i, instruction in enumerate(self.code)}
        descriptor = self.file_offset(self.object.symbols[self.name + ".kd"])
        self.resources_1, self.resources_2 = struct.unpack_from("<II", self.object.raw, descriptor + 48)
        self.properties, = struct.unpack_from("<H", self.object.raw, descriptor + 56)
        self.vgprs = self.metadata[".vgpr_count"]
        self.lds_bytes = self.metadata[".group_segment_fixed_size"]
        self.scratch_bytes = self.metadata[".private_segment_fixed_size"]

    def file_offset(self, address):
        for segment in self.object.segments:
            if segment.address <= address < segment.address + segment.file_bytes:
                return segment.offset + address - segment.address
        raise isa.Unknown(f"{self.name}: address 0x{address:x} is in no segment")

    def at_address(self, address):
        if address not in self.places:
            raise isa.Unknown(f"{self.name}: a branch leaves the kernel (0x{address:x})")
        return self.places[address]

    def user_scalars(self, launch):
        scalars = []
        for bit, words in ((0, 4), (1, 2), (2, 2), (3, 2), (4, 2), (5, 2), (6, 1)):
            if self.properties >> bit & 1:
                value = {1: ARGUMENTS + (1 << 20), 3: ARGUMENTS}.get(bit, 0)
                scalars += [value >> 32 * i & 0xffffffff for i in range(words)]
        return scalars

    def waves_per_simd(self, threads, dynamic_lds=0):
        """(waves of a SIMD, work-groups of a unit, what limits them)."""
        timing = self.timing
        waves = -(-threads // timing.wave)
        registers = -(-max(self.vgprs, 1) // timing.granule) * timing.granule
        by_registers = min(timing.waves, timing.vgprs // registers)
        lds = self.lds_bytes + dynamic_lds
        groups = {"waves": timing.waves * timing.simds // waves, "registers": by_registers * timing.simds // waves,
                  "LDS": timing.lds_size // lds if lds else 1 << 30}
        # Waves of a group are spread over the SIMDs: a group of one wave leaves room for others.
        limit = min(groups, key=groups.get)
        return min(groups[limit] * waves / timing.simds, timing.waves), groups[limit], limit


class Buffer:
    """An argument that points to memory. `data`: what is known of it (an array or bytes), where addresses or branches depend on it."""

    def __init__(self, data=None):
        self.data = None if data is None else (np.ascontiguousarray(data).tobytes() if isinstance(data, np.ndarray) else bytes(data))
        self.address = None


class Launch:
    """grid and block in threads' groups, arguments in order: Buffer, None (a null pointer), numbers, or bytes (a struct by value).
    In bytes, `("pointer", offset, Buffer)` of `pointers` says which addresses a struct holds. `unknown_taken`: whether branches are taken
    whose condition is not known; a caller says so who knows what they depend on."""

    def __init__(self, kernel, grid, block, arguments, dynamic_lds=0, pointers=(), unknown_taken=False):
        self.unknown_taken = unknown_taken
        self.kernel, self.grid, self.block, self.dynamic_lds = kernel, tuple(grid), tuple(block), dynamic_lds
        self.regions = []
        for i, buffer in enumerate([a for a in arguments if isinstance(a, Buffer)] + [buffer for _, buffer in pointers]):
            if buffer.address is None:
                buffer.address = FIRST_BUFFER + BUFFER_STEP * (i + 1)
            if buffer.data is not None:
                self.regions.append((buffer.address, buffer.data))
        self.segment = self._arguments(list(arguments), pointers)
        self.regions.append((ARGUMENTS, bytes(self.segment)))
        packet = struct.pack("<HHHHHHIIIII", 0, 3, *self.block, 0, *(g * b for g, b in zip(self.grid, self.block)), 0, 0)
        self.regions.append((ARGUMENTS + (1 << 20), packet))
        for part in kernel.object.segments:
            self.regions.append((CODE_BASE + part.address, kernel.object.raw[part.offset:part.offset + part.file_bytes]))
        self.regions.sort(key=lambda region: region[0])
        self.starts = [region[0] for region in self.regions]

    @property
    def threads(self):
        return math.prod(self.block)

    @property
    def groups(self):
        return math.prod(self.grid)

    def _arguments(self, values, pointers):
        segment = bytearray(self.kernel.metadata[".kernarg_segment_size"] + 64)
        for argument in self.kernel.metadata[".args"]:
            kind, size, offset = argument[".value_kind"], argument[".size"], argument[".offset"]
            if kind in ("by_value", "global_buffer"):
                if not values:
                    raise isa.Unknown(f"{self.kernel.name}: the launch gives too few arguments")
                value = self._bytes(values.pop(0), size, pointers)
            elif kind.startswith("hidden_block_count_"):
                value = struct.pack("<I", self.grid["xyz".index(kind[-1])])
            elif kind.startswith("hidden_group_size_"):
                value = struct.pack("<H", self.block["xyz".index(kind[-1])])
            elif kind == "hidden_grid_dims":
                value = struct.pack("<H", 3)
            elif kind == "hidden_dynamic_lds_size":
                value = struct.pack("<I", self.dynamic_lds)
            else:
                value = bytes(size)
            segment[offset:offset + size] = value
        if values:
            raise isa.Unknown(f"{self.kernel.name}: the launch gives {len(values)} arguments too many")
        return segment

    def _bytes(self, value, size, pointers):
        if isinstance(value, Buffer):
            return struct.pack("<Q", value.address)
        if value is None:
            return bytes(size)
        if isinstance(value, (bytes, bytearray)):
            value = bytearray(value)
            for offset, buffer in pointers:
                struct.pack_into("<Q", value, offset, buffer.address)
            if len(value) != size:
                raise isa.Unknown(f"{self.kernel.name}: an argument has {size} bytes, the launch gives {len(value)}")
            return bytes(value)
        if isinstance(value, float):
            return struct.pack("<f" if size == 4 else "<d", value)
        return struct.pack({1: "<b", 2: "<h", 4: "<i", 8: "<q"}[size], value)

    def read(self, address, count):
        at = bisect.bisect_right(self.starts, address) - 1
        if at < 0:
            return None
        base, data = self.regions[at]
        return data[address - base:address - base + count] if address - base + count <= len(data) else None

    def words(self, address, count):
        data = self.read(address, 4 * count)
        return None if data is None else struct.unpack(f"<{count}I", data)

    def gather(self, addresses, active, words):
        """Vectors that the active lanes load, or None where some of it is unknown."""
        rows = np.zeros((words, len(addresses)), np.uint32)
        for lane in np.nonzero(active)[0]:
            found = self.words(int(addresses[lane]), words)
            if found is None:
                return None
            rows[:, lane] = found
        return list(rows)

    def gather_shorts(self, addresses, active):
        """The 16-bit values that the active lanes load, or None where some of them is unknown."""
        row = np.zeros(len(addresses), np.uint32)
        for lane in np.nonzero(active)[0]:
            found = self.read(int(addresses[lane]), 2)
            if found is None:
                return None
            row[lane] = int.from_bytes(found, "little")
        return row
