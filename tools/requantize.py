#!/usr/bin/env python3
"""Derives a file of another weight format from a GGUF model. Needs numpy.

Matrices get TYPE; where their rows do not divide by its block they get Q8_0, or F16 where not even by 32. Vectors (norms,
biases, RoPE factors) get F32. Metadata is copied, general.file_type follows TYPE.
usage: requantize.py IN.gguf TYPE OUT.gguf      TYPE: f32 f16 bf16 q8_0 q6_k q5_k q4_k q4_0
"""
import sys

import gguf_io
import gguf_quant


def target_type(tensor, kind):
    if len(tensor.dims) == 1:
        return "F32"
    for candidate in (kind, "Q8_0", "F16"):
        if tensor.dims[0] % gguf_io.TYPES[candidate][1] == 0:
            return candidate


def converted(tensor, kind):
    kind = target_type(tensor, kind)
    if kind == tensor.type:
        return tensor
    if tensor.type not in gguf_quant.DEQUANTIZE:
        raise ValueError(f"{tensor.name}: converting from {tensor.type} is not supported")

    def pieces():  # made when the writer asks, so that only one tensor is in memory
        yield from gguf_quant.quantize(kind, gguf_quant.dequantize(tensor.type, tensor.data))

    return gguf_io.Tensor(tensor.name, tensor.dims, kind, pieces())


def requantize(source, kind, target):
    kind = kind.upper()
    if kind not in gguf_quant.QUANTIZE:
        raise ValueError(f"type {kind} is unknown; known: {', '.join(gguf_quant.QUANTIZE).lower()}")
    file = gguf_io.File(source)
    metadata = dict(file.metadata)
    metadata["general.file_type"] = gguf_io.value(gguf_io.U32, gguf_io.FILE_TYPES[kind])
    gguf_io.write(target, metadata, [converted(tensor, kind) for tensor in file.tensors])


def main():
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    try:
        requantize(*sys.argv[1:])
    except (ValueError, OSError) as error:
        sys.exit(f"requantize.py: {error}")


if __name__ == "__main__":
    main()
