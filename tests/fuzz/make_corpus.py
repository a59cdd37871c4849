#!/usr/bin/env python3
"""Writes the seeds of fuzz_gguf: small valid files that reach every value type, every tensor type and the split keys.

usage: make_corpus.py [OUT_FOLDER]
"""
import pathlib
import struct
import sys

# Block length and bytes of each tensor type id, as in src/tensor/dtype.cpp.
TENSOR_TYPES = {
    0: (1, 4), 1: (1, 2), 2: (32, 18), 3: (32, 20), 6: (32, 22), 7: (32, 24), 8: (32, 34), 10: (256, 84), 11: (256, 110),
    12: (256, 144), 13: (256, 176), 14: (256, 210), 16: (256, 66), 20: (32, 18), 23: (256, 136), 26: (1, 4), 30: (1, 2),
    39: (32, 17), 40: (64, 36),
}
SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "B", 10: "Q", 11: "q", 12: "d"}


def text(value):
    return struct.pack("<Q", len(value)) + value


def pair(key, kind, value):
    return text(key) + struct.pack("<I", kind) + value


def array(kind, elements):
    return struct.pack("<IQ", kind, len(elements)) + b"".join(elements)


def gguf(pairs, tensors=(), version=3, alignment=32):
    """`tensors`: (name, dims, type id) triples, placed one after another."""
    entries, data = b"", b""
    for name, dims, kind in tensors:
        elems, size = TENSOR_TYPES[kind]
        count = 1
        for dim in dims:
            count *= dim
        entries += text(name) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, kind, len(data))
        block = bytes((7 * i + kind) % 256 for i in range(count // elems * size))
        data += block + bytes(-len(block) % alignment)
    head = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(pairs)) + b"".join(pairs) + entries
    return head + bytes(-len(head) % alignment) + data


def seeds():
    scalars = [pair(b"s%d" % kind, kind, struct.pack("<" + code, 1)) for kind, code in SCALARS.items()]
    yield "scalars", gguf(scalars + [pair(b"text", 8, text(b"hello"))])
    arrays = [pair(b"a%d" % kind, 9, array(kind, [struct.pack("<" + code, 1)] * 3)) for kind, code in SCALARS.items()]
    yield "arrays", gguf(arrays + [pair(b"texts", 9, array(8, [text(b"a"), text(b""), text(b"bcd")]))])
    inner = array(4, [struct.pack("<I", 5)] * 2)
    yield "nested", gguf([pair(b"nested", 9, array(9, [inner, array(9, [inner]), inner]))])
    for kind, (elems, _) in TENSOR_TYPES.items():
        yield f"type{kind}", gguf([], [(b"w", (elems, 2), kind), (b"norm", (3,), 0)])
    align = pair(b"general.alignment", 4, struct.pack("<I", 8))
    yield "aligned", gguf([align], [(b"a", (3,), 1), (b"b", (2, 1, 1, 3), 0), (b"c", (), 0)], version=2, alignment=8)
    split = [pair(b"split.no", 2, struct.pack("<H", 0)), pair(b"split.count", 2, struct.pack("<H", 2))]
    yield "split", gguf(split)


def main():
    folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parent / "corpus"
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in seeds():
        (folder / f"{name}.gguf").write_bytes(data)


if __name__ == "__main__":
    main()
