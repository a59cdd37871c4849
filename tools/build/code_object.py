"""Reads AMD code objects (ELF): segments, symbols and the kernels' metadata (a MessagePack note)."""
import dataclasses
import struct

NOTE_METADATA = 32  # NT_AMDGPU_METADATA


@dataclasses.dataclass
class Segment:
    offset: int
    address: int
    file_bytes: int
    memory_bytes: int
    executable: bool


class CodeObject:
    def __init__(self, raw):
        self.raw = bytes(raw)
        if self.raw[:4] != b"\x7fELF":
            raise ValueError("not an ELF file")
        program_offset, section_offset = struct.unpack_from("<QQ", self.raw, 0x20)
        _, _, program_count, _, section_count, _ = struct.unpack_from("<HHHHHH", self.raw, 0x34)
        self.segments, self.kernels = [], {}
        for i in range(program_count):
            kind, flags, offset, address, _, file_bytes, memory_bytes, _ = struct.unpack_from(
                "<IIQQQQQQ", self.raw, program_offset + 56 * i)
            if kind == 1:
                self.segments.append(Segment(offset, address, file_bytes, memory_bytes, bool(flags & 1)))
            elif kind == 4:
                self._read_notes(offset, offset + file_bytes)
        self.sections = [struct.unpack_from("<IIQQQQIIQQ", self.raw, section_offset + 64 * i) for i in range(section_count)]
        self.symbols = dict(self._symbols())

    @property
    def memory_bytes(self):
        return max(s.address + s.memory_bytes for s in self.segments)

    def has_relocations(self):
        return any(section[1] in (4, 9) and section[5] for section in self.sections)  # SHT_RELA, SHT_REL

    def place_of(self, symbol):
        """Where in the file a variable's first value lies; None: there is no such variable. NVIDIA's objects too."""
        for name, value, section in self._entries(2):  # SHT_SYMTAB
            if name == symbol and 0 < section < len(self.sections):
                _, _, _, address, offset, *_ = self.sections[section]
                return offset + value - address
        return None

    def _symbols(self):
        return ((name, value) for name, value, _ in self._entries(11))  # SHT_DYNSYM

    def _entries(self, table):
        """(name, value, section) of each symbol."""
        for _, kind, _, _, offset, size, link, _, _, _ in self.sections:
            if kind != table:
                continue
            strings = self.sections[link][4]
            for at in range(offset, offset + size, 24):
                name, _, _, section, value, _ = struct.unpack_from("<IBBHQQ", self.raw, at)
                start = strings + name
                yield self.raw[start:self.raw.index(b"\0", start)].decode(), value, section

    def _read_notes(self, at, end):
        while at < end:
            name_bytes, data_bytes, kind = struct.unpack_from("<III", self.raw, at)
            data = at + 12 + (name_bytes + 3 & ~3)
            if kind == NOTE_METADATA:
                metadata, _ = unpack_message(self.raw, data)
                self.kernels = {kernel[".name"]: kernel for kernel in metadata.get("amdhsa.kernels", [])}
            at = data + (data_bytes + 3 & ~3)


def unpack_message(raw, at):
    """One MessagePack value at offset `at`: (value, offset after it)."""
    tag = raw[at]
    at += 1
    if tag < 0x80:
        return tag, at
    if tag >= 0xe0:
        return tag - 256, at
    if tag < 0x90:
        return _unpack_map(raw, at, tag & 15)
    if tag < 0xa0:
        return _unpack_list(raw, at, tag & 15)
    if tag < 0xc0:
        return raw[at:at + (tag & 31)].decode(), at + (tag & 31)
    if tag in (0xc0, 0xc2, 0xc3):
        return {0xc0: None, 0xc2: False, 0xc3: True}[tag], at
    numbers = {0xca: ">f", 0xcb: ">d", 0xcc: ">B", 0xcd: ">H", 0xce: ">I", 0xcf: ">Q", 0xd0: ">b", 0xd1: ">h", 0xd2: ">i", 0xd3: ">q"}
    if tag in numbers:
        return struct.unpack_from(numbers[tag], raw, at)[0], at + struct.calcsize(numbers[tag])
    counts = {0xd9: ">B", 0xda: ">H", 0xdb: ">I", 0xdc: ">H", 0xdd: ">I", 0xde: ">H", 0xdf: ">I"}
    if tag not in counts:
        raise ValueError(f"metadata holds a value of unknown kind 0x{tag:02x}")
    count, = struct.unpack_from(counts[tag], raw, at)
    at += struct.calcsize(counts[tag])
    if tag <= 0xdb:
        return raw[at:at + count].decode(), at + count
    return _unpack_list(raw, at, count) if tag <= 0xdd else _unpack_map(raw, at, count)


def _unpack_list(raw, at, count):
    values = []
    for _ in range(count):
        value, at = unpack_message(raw, at)
        values.append(value)
    return values, at


def _unpack_map(raw, at, count):
    entries = {}
    for _ in range(count):
        key, at = unpack_message(raw, at)
        entries[key], at = unpack_message(raw, at)
    return entries, at
