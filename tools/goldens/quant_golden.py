#!/usr/bin/env python3
"""Writes tests/golden/quant/*.bin: random valid blocks of every format that computes, and their values.

Needs numpy and the `gguf` package of PyPI, whose dequantisation gives the values; the tests read only the files.
A file NAME.bin holds n blocks, then n * block_elems floats (little-endian), n following from the file's size.
usage: quant_golden.py [OUT_FOLDER]
"""
import pathlib
import sys

import numpy as np
from gguf import GGMLQuantizationType, GGML_QUANT_SIZES
from gguf.quants import dequantize

SEED = 20240
SMALL_BLOCKS, LARGE_BLOCKS, PLAIN_VALUES = 64, 16, 512

# Byte offsets of the f16 fields (scales, minima) of each format; MXFP4 and NVFP4 have scales of one byte instead, and IQ1_M
# keeps its scale in the top nibbles of the last four words.
HALF_FIELDS = {
    "Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0], "Q2_K": [80, 82], "Q3_K": [108],
    "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208], "IQ4_NL": [0], "IQ4_XS": [0], "MXFP4": [],
    "NVFP4": [], "IQ1_S": [0], "IQ1_M": [], "IQ2_XXS": [0], "IQ2_XS": [0], "IQ2_S": [0], "IQ3_XXS": [0], "IQ3_S": [0],
    "TQ1_0": [52], "TQ2_0": [64],
}
# Zero of both signs, the least and greatest denormal, the least normal number, one, the greatest finite number.
SPECIAL_HALVES = [0x0000, 0x8000, 0x0001, 0x83FF, 0x0400, 0x3C00, 0xBC00, 0x7BFF, 0xFBFF]
SPECIAL_E4M3 = [0, 1, 7, 8, 0x7E, 0x7F, 0x80, 0xFF]
SPECIAL_EXPONENTS = [0, 1, 2, 127, 128, 253, 254, 255]


def halves(rng, count):
    """f16 bit patterns: the special ones, then every exponent and both signs alike (no infinity, no NaN)."""
    bits = rng.integers(0, 0x7C00, count, dtype=np.uint16) | rng.integers(0, 2, count, dtype=np.uint16) << np.uint16(15)
    bits[: len(SPECIAL_HALVES)] = SPECIAL_HALVES
    return rng.permutation(bits)


def blocks_of(rng, name):
    elems, size = GGML_QUANT_SIZES[GGMLQuantizationType[name]]
    count = LARGE_BLOCKS if elems == 256 else SMALL_BLOCKS
    blocks = rng.integers(0, 256, (count, size), dtype=np.uint8)
    blocks[0], blocks[1] = 0x00, 0xFF
    for offset in HALF_FIELDS[name]:
        blocks[:, offset : offset + 2] = halves(rng, count).view(np.uint8).reshape(count, 2)
    if name == "MXFP4":
        blocks[: len(SPECIAL_EXPONENTS), 0] = SPECIAL_EXPONENTS
    if name == "NVFP4":
        blocks[: len(SPECIAL_E4M3), 0] = SPECIAL_E4M3
    if name == "IQ1_M":
        words = blocks[:, 48:].copy().view("<u2")
        scale = halves(rng, count)[:, None] >> np.array([0, 4, 8, 12], np.uint16)
        blocks[:, 48:] = (words & 0x0FFF | (scale & 15) << 12).astype("<u2").view(np.uint8)
    return blocks


def plain_values(rng, name):
    """Bit patterns of plain types: well spread, infinities and denormals among them, no NaN."""
    if name == "F32":
        values = rng.standard_normal(PLAIN_VALUES) * 10.0 ** rng.uniform(-44, 38, PLAIN_VALUES)
        return values.astype(np.float32).view(np.uint8)
    infinity = 0x7C00 if name == "F16" else 0x7F80
    bits = rng.integers(0, infinity + 1, PLAIN_VALUES, dtype=np.uint16)
    bits[:4] = [0, 1, infinity, infinity - 1]
    bits |= rng.integers(0, 2, PLAIN_VALUES, dtype=np.uint16) << np.uint16(15)
    return bits.view(np.uint8)


def main():
    default = pathlib.Path(__file__).resolve().parents[2] / "tests" / "golden" / "quant"
    folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else default
    folder.mkdir(parents=True, exist_ok=True)
    for name in ["F32", "F16", "BF16", *HALF_FIELDS]:
        rng = np.random.default_rng([SEED, GGMLQuantizationType[name]])  # a new format leaves the other files as they are
        data = blocks_of(rng, name) if name in HALF_FIELDS else plain_values(rng, name)
        with np.errstate(over="ignore"):
            values = dequantize(data.reshape(-1), GGMLQuantizationType[name]).astype("<f4").reshape(-1)
        assert not np.isnan(values).any(), name
        (folder / f"{name.lower()}.bin").write_bytes(data.tobytes() + values.tobytes())
        print(f"{name}: {data.nbytes} bytes of blocks, {values.size} values")


if __name__ == "__main__":
    main()
