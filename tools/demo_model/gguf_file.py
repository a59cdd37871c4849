"""A writer and a reader for GGUF version 3, as far as this model needs them, and block quantisation in numpy."""
import struct

import numpy as np

U32, I32, F32, BOOL, STRING, ARRAY = 4, 5, 6, 7, 8, 9
TYPE_F32, TYPE_F16, TYPE_Q4_0, TYPE_Q8_0 = 0, 1, 2, 8
ALIGNMENT = 32


def _string(text):
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def _value(value):
    """(type, bytes) of a metadata value: bool, int (u32), float (f32), str, or a list of int, float or str."""
    if isinstance(value, bool):
        return BOOL, struct.pack("<?", value)
    if isinstance(value, int):
        return U32, struct.pack("<I", value)
    if isinstance(value, float):
        return F32, struct.pack("<f", value)
    if isinstance(value, str):
        return STRING, _string(value)
    if isinstance(value[0], str):
        return ARRAY, struct.pack("<IQ", STRING, len(value)) + b"".join(map(_string, value))
    if isinstance(value[0], float):
        return ARRAY, struct.pack(f"<IQ{len(value)}f", F32, len(value), *value)
    return ARRAY, struct.pack("<IQ", I32, len(value)) + struct.pack(f"<{len(value)}i", *value)


def q8_0(x):
    """Blocks of 32: a half-precision scale and 32 signed bytes."""
    blocks = x.astype(np.float32).reshape(-1, 32)
    scale = (np.abs(blocks).max(1, keepdims=True) / 127).astype(np.float32)
    inverse = np.divide(1, scale, out=np.zeros_like(scale), where=scale != 0)
    return np.hstack([scale.astype("<f2").view(np.uint8), np.rint(blocks * inverse).astype(np.int8).view(np.uint8)])


def dequantise(kind, data, shape):
    if kind == TYPE_F32:
        return np.frombuffer(data, "<f4").reshape(shape)
    if kind == TYPE_F16:
        return np.frombuffer(data, "<f2").astype(np.float32).reshape(shape)
    rows = np.frombuffer(data, np.uint8).reshape(-1, 34)
    scale = np.ascontiguousarray(rows[:, :2]).view("<f2").astype(np.float32)
    return (scale * rows[:, 2:].view(np.int8)).astype(np.float32).reshape(shape)


def tensor_bytes(x, kind):
    if kind == TYPE_Q8_0:
        return q8_0(x).tobytes()
    return x.astype("<f4" if kind == TYPE_F32 else "<f2").tobytes()


def write(path, metadata, tensors):
    """tensors: name -> (float32 array, type). GGUF lists dimensions with the contiguous one first."""
    header = struct.pack("<4sIQQ", b"GGUF", 3, len(tensors), len(metadata))
    for key, value in metadata.items():
        kind, data = _value(value)
        header += _string(key) + struct.pack("<I", kind) + data
    blobs, offset = [], 0
    for name, (x, kind) in tensors.items():
        data = tensor_bytes(x, kind)
        data += bytes(-len(data) % ALIGNMENT)
        header += _string(name) + struct.pack(f"<I{x.ndim}QIQ", x.ndim, *reversed(x.shape), kind, offset)
        blobs.append(data)
        offset += len(data)
    with open(path, "wb") as file:
        file.write(header + bytes(-len(header) % ALIGNMENT))
        for data in blobs:
            file.write(data)


def read(path):
    """(metadata, tensors as float32 arrays)"""
    with open(path, "rb") as file:
        data = file.read()
    at = 0

    def take(form):
        nonlocal at
        values = struct.unpack_from("<" + form, data, at)
        at += struct.calcsize("<" + form)
        return values if len(values) > 1 else values[0]

    def string():
        nonlocal at
        length = take("Q")
        at += length
        return data[at - length:at].decode()

    def value(kind):
        if kind == STRING:
            return string()
        if kind == ARRAY:
            inner, count = take("IQ")
            return [value(inner) for _ in range(count)]
        return take({U32: "I", I32: "i", F32: "f", BOOL: "?"}[kind])
    magic, version, tensor_count, key_count = take("4sIQQ")
    if magic != b"GGUF" or version != 3:
        raise ValueError(f"{path} is not a GGUF file of version 3")
    metadata = {}
    for _ in range(key_count):
        key = string()
        metadata[key] = value(take("I"))
    entries = []
    for _ in range(tensor_count):
        name, dims = string(), take("I")
        shape = [take("Q") for _ in range(dims)][::-1]
        kind, offset = take("IQ")
        entries.append((name, shape, kind, offset))
    start = at + -at % ALIGNMENT
    tensors = {}
    for name, shape, kind, offset in entries:
        count = int(np.prod(shape))
        size = {TYPE_F32: 4 * count, TYPE_F16: 2 * count, TYPE_Q8_0: count // 32 * 34}[kind]
        tensors[name] = dequantise(kind, data[start + offset:start + offset + size], shape)
    return metadata, tensors
