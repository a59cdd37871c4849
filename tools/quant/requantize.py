#!/usr/bin/env python3
"""Derives a file of another weight format from a GGUF model. Needs numpy.

Matrices get TYPE; where their rows do not divide by its block they get Q8_0, or F16 where not even by 32. Vectors (norms,
biases, RoPE factors) get F32. Metadata is copied, general.file_type follows TYPE. With nvfp4 each matrix has a scale of its own
in a tensor NAME.scale, and the embedding, which cannot have one, gets Q8_0.
usage: requantize.py IN.gguf TYPE OUT.gguf      TYPE: f32 f16 bf16 q8_0 q6_k q5_k q4_k q4_0 nvfp4 tq2_0 tq1_0
"""
import struct
import sys

import gguf_io
import gguf_quant


def target_type(tensor, kind):
    if len(tensor.dims) == 1:
        return "F32"
    if kind == "NVFP4" and tensor.name == "token_embd.weight":
        kind = "Q8_0"
    for candidate in (kind, "Q8_0", "F16"):
        if tensor.dims[0] % gguf_io.TYPES[candidate][1] == 0:
            return candidate


def converted(tensor, kind):
    """The tensors that take its place."""
    kind = target_type(tensor, kind)
    if kind == tensor.type:
        return [tensor]
    if tensor.type not in gguf_quant.DEQUANTIZE:
        raise ValueError(f"{tensor.name}: converting from {tensor.type} is not supported")

    def pieces(scale=None):  # made when the writer asks, so that only one tensor is in memory
        values = gguf_quant.dequantize(tensor.type, tensor.data)
        yield from gguf_quant.quantize(kind, values if scale is None else values / scale)

    if kind != "NVFP4":
        return [gguf_io.Tensor(tensor.name, tensor.dims, kind, pieces())]
    scale = gguf_quant.nvfp4_scale(gguf_quant.dequantize(tensor.type, tensor.data))
    scale_name = tensor.name.removesuffix(".weight") + ".scale"
    return [gguf_io.Tensor(tensor.name, tensor.dims, kind, pieces(scale)),
            gguf_io.Tensor(scale_name, (1,), "F32", struct.pack("<f", scale))]


def requantize(source, kind, target):
    kind = kind.upper()
    if kind not in gguf_quant.QUANTIZE:
        raise ValueError(f"type {kind} is unknown; known: {', '.join(gguf_quant.QUANTIZE).lower()}")
    file = gguf_io.File(source)
    metadata = dict(file.metadata)
    metadata["general.file_type"] = gguf_io.value(gguf_io.U32, gguf_io.FILE_TYPES[kind])
    gguf_io.write(target, metadata, [new for tensor in file.tensors for new in converted(tensor, kind)])


def main():
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    try:
        requantize(*sys.argv[1:])
    except (ValueError, OSError) as error:
        sys.exit(f"requantize.py: {error}")


if __name__ == "__main__":
    main()
