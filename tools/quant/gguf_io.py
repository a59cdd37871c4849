"""Reads and writes GGUF files for the tools: metadata as raw bytes, tensors as views of a mapped file."""
import dataclasses
import mmap
import struct

# Tensor types by name: id, elements and bytes of a block.
TYPES = {
    "F32": (0, 1, 4), "F16": (1, 1, 2), "Q4_0": (2, 32, 18), "Q4_1": (3, 32, 20), "Q5_0": (6, 32, 22), "Q5_1": (7, 32, 24),
    "Q8_0": (8, 32, 34), "Q2_K": (10, 256, 84), "Q3_K": (11, 256, 110), "Q4_K": (12, 256, 144), "Q5_K": (13, 256, 176),
    "Q6_K": (14, 256, 210), "IQ4_NL": (20, 32, 18), "IQ4_XS": (23, 256, 136), "BF16": (30, 1, 2), "MXFP4": (39, 32, 17),
    "IQ2_XXS": (16, 256, 66), "IQ2_XS": (17, 256, 74), "IQ3_XXS": (18, 256, 98), "IQ1_S": (19, 256, 50), "IQ3_S": (21, 256, 110),
    "IQ2_S": (22, 256, 82), "IQ1_M": (29, 256, 56), "TQ1_0": (34, 256, 54), "TQ2_0": (35, 256, 66), "NVFP4": (40, 64, 36),
}
# general.file_type of a file whose weights all have one type; the k-quants are the "S" mixes.
FILE_TYPES = {"F32": 0, "F16": 1, "Q4_0": 2, "Q8_0": 7, "Q4_K": 14, "Q5_K": 16, "Q6_K": 18, "BF16": 32,
              "TQ1_0": 36, "TQ2_0": 37, "NVFP4": 39}
NAMES = {entry[0]: name for name, entry in TYPES.items()}
SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
U32, FLOAT32, STRING, ARRAY = 4, 6, 8, 9


@dataclasses.dataclass
class Tensor:
    name: str
    dims: tuple  # innermost first, as in the file
    type: str
    data: object  # bytes-like, or an iterable of bytes-like pieces

    def nbytes(self):
        _, elems, size = TYPES[self.type]
        if self.dims[0] % elems:
            raise ValueError(f"{self.name}: rows of {self.dims[0]} do not divide into {self.type} blocks of {elems}")
        return self.elements() // elems * size

    def elements(self):
        count = 1
        for dim in self.dims:
            count *= dim
        return count


def text(value):
    encoded = value.encode()
    return struct.pack("<Q", len(encoded)) + encoded


def value(kind, content):
    """The bytes of a metadata value with its type."""
    body = text(content) if kind == STRING else struct.pack("<" + SCALARS[kind], content)
    return struct.pack("<I", kind) + body


class File:
    """`metadata`: key to the raw bytes of type and value, in file order; `tensors` in file order."""

    def __init__(self, path):
        with open(path, "rb") as file:
            self._bytes = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        self._at = 0
        if bytes(self._bytes[:4]) != b"GGUF":
            raise ValueError(f"{path}: not a GGUF file")
        self._at = 4
        version, num_tensors, num_pairs = self._unpack("IQQ")
        if version not in (2, 3):
            raise ValueError(f"{path}: version {version} is not supported")
        self.metadata = {}
        for _ in range(num_pairs):
            key, start = self._text(), self._at
            self._skip(self._unpack("I")[0])
            self.metadata[key] = bytes(self._bytes[start : self._at])
        if "split.count" in self.metadata and self.scalar("split.count") > 1:
            raise ValueError(f"{path}: split files are not supported")
        entries = []
        for _ in range(num_tensors):
            name, (rank,) = self._text(), self._unpack("I")
            dims, (kind, offset) = self._unpack(f"{rank}Q"), self._unpack("IQ")
            if kind not in NAMES:
                raise ValueError(f"{path}: tensor {name}: type {kind} is not supported")
            entries.append((Tensor(name, dims or (1,), NAMES[kind], None), offset))
        alignment = self.scalar("general.alignment") if "general.alignment" in self.metadata else 32
        start = -(-self._at // alignment) * alignment
        for tensor, offset in entries:
            tensor.data = self._bytes[start + offset : start + offset + tensor.nbytes()]
        self.tensors = [tensor for tensor, _ in entries]

    def scalar(self, key):
        raw = self.metadata[key]
        return struct.unpack_from("<" + SCALARS[struct.unpack_from("<I", raw)[0]], raw, 4)[0]

    def array_length(self, key):
        return struct.unpack_from("<Q", self.metadata[key], 8)[0]

    def _unpack(self, codes):
        values = struct.unpack_from("<" + codes, self._bytes, self._at)
        self._at += struct.calcsize("<" + codes)
        return values

    def _text(self):
        (length,) = self._unpack("Q")
        self._at += length
        return bytes(self._bytes[self._at - length : self._at]).decode()

    def _skip(self, kind):
        if kind == STRING:
            (length,) = self._unpack("Q")
            self._at += length
        elif kind == ARRAY:
            element, count = self._unpack("IQ")
            if element in SCALARS:
                self._at += count * struct.calcsize(SCALARS[element])
            else:
                for _ in range(count):
                    self._skip(element)
        else:
            self._at += struct.calcsize(SCALARS[kind])


def write(path, metadata, tensors, alignment=32):
    """Writes `metadata` (key to raw bytes of type and value) and `tensors`, whose data may be an iterable of pieces.

    The data is asked for one tensor at a time. The alignment becomes that of the file: a general.alignment key is dropped."""
    pairs = {key: raw for key, raw in metadata.items() if key != "general.alignment"}
    if alignment != 32:
        pairs["general.alignment"] = value(U32, alignment)
    header = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(pairs))
    header += b"".join(text(key) + raw for key, raw in pairs.items())
    entries, offset = [], 0
    for tensor in tensors:
        dims = struct.pack(f"<I{len(tensor.dims)}Q", len(tensor.dims), *tensor.dims)
        entries.append(text(tensor.name) + dims + struct.pack("<IQ", TYPES[tensor.type][0], offset))
        offset += -(-tensor.nbytes() // alignment) * alignment
    header += b"".join(entries)
    with open(path, "wb") as file:
        file.write(header + bytes(-len(header) % alignment))
        for tensor in tensors:
            pieces = [tensor.data] if isinstance(tensor.data, (bytes, memoryview)) else tensor.data
            written = sum(file.write(piece) for piece in pieces)
            if written != tensor.nbytes():
                raise ValueError(f"{tensor.name}: {written} bytes of data, {tensor.nbytes()} expected")
            file.write(bytes(-written % alignment))
