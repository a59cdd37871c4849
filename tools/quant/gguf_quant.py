"""Quantisers and dequantisers in numpy, for the tools that make files. Formulas: reference of the GGUF block formats.

Every function works on an array [blocks, elements] of float32 or [blocks, bytes] of uint8.
Scales are found by a search: for each of a few steps around the range's own, quantise, refit by least squares, keep the best.
"""
import numpy as np

from gguf_io import TYPES

CHUNK = 1 << 20  # values quantised at a time


def half(values):
    """float32 as the bytes of f16, [n] -> [n, 2]."""
    return values.astype(np.float16).view(np.uint8).reshape(-1, 2)


def rounded_to_half(values):
    return values.astype(np.float16).astype(np.float32)


def divide(numerator, denominator):
    """0 where the denominator is 0."""
    return np.divide(numerator, denominator, out=np.zeros_like(numerator), where=denominator != 0)


def best_scale(x, levels):
    """Scale s of x ~ s * q, q an integer in [-levels, levels - 1]; x: [groups, n]."""
    peak = np.take_along_axis(x, np.abs(x).argmax(axis=1)[:, None], axis=1)[:, 0]  # signed: it gets the one more level
    best, least = np.zeros_like(peak), np.full_like(peak, np.inf)
    for widen in np.linspace(-0.9, 0.9, 13, dtype=np.float32):
        scale = peak / np.float32(-(levels + widen))
        q = np.clip(np.rint(x * divide(np.ones_like(scale), scale)[:, None]), -levels, levels - 1)
        scale = divide((x * q).sum(axis=1), (q * q).sum(axis=1))
        error = ((x - scale[:, None] * q) ** 2).sum(axis=1)
        better = error < least
        best[better], least[better] = scale[better], error[better]
    return best


def best_scale_and_minimum(x, top):
    """(s, m) of x ~ s * q - m, q an integer in [0, top], s and m at least 0; x: [groups, n]."""
    low, high = np.minimum(x.min(axis=1), 0), x.max(axis=1)
    n = np.float32(x.shape[1])
    total = x.sum(axis=1)
    best_s, best_m, least = np.zeros_like(low), -low, (x - low[:, None]).astype(np.float32)
    least = (least**2).sum(axis=1)
    for widen in np.linspace(-1.0, 1.0, 17, dtype=np.float32):
        inverse = divide(np.full_like(low, top + widen), high - low)
        q = np.clip(np.rint((x - low[:, None]) * inverse[:, None]), 0, top)
        sum_q, sum_qq, sum_xq = q.sum(axis=1), (q * q).sum(axis=1), (x * q).sum(axis=1)
        s = divide(n * sum_xq - total * sum_q, n * sum_qq - sum_q * sum_q)
        m = (s * sum_q - total) / n
        s = np.where(m < 0, divide(sum_xq, sum_qq), s)  # the minimum cannot be positive: fit the scale alone
        m = np.maximum(m, 0)
        error = ((s[:, None] * q - m[:, None] - x) ** 2).sum(axis=1)
        better = (error < least) & (s >= 0)
        best_s[better], best_m[better], least[better] = s[better], m[better], error[better]
    return best_s, best_m


def nibbles(q):
    """[n, 32] of 0..15 -> [n, 16]: element j low, j + 16 high."""
    return (q[:, :16] | q[:, 16:] << 4).astype(np.uint8)


def quantize_q8_0(x):
    scale = rounded_to_half(np.abs(x).max(axis=1) / np.float32(127))
    q = np.clip(np.rint(divide(x, np.broadcast_to(scale[:, None], x.shape))), -128, 127).astype(np.int8)
    return np.hstack([half(scale), q.view(np.uint8)])


def dequantize_q8_0(b):
    return b[:, :2].copy().view(np.float16).astype(np.float32) * b[:, 2:].copy().view(np.int8).astype(np.float32)


def quantize_q4_0(x):
    scale = rounded_to_half(best_scale(x, 8))
    q = np.clip(np.rint(divide(x, np.broadcast_to(scale[:, None], x.shape))), -8, 7) + 8
    return np.hstack([half(scale), nibbles(q.astype(np.uint8))])


def dequantize_q4_0(b):
    q = np.hstack([b[:, 2:] & 15, b[:, 2:] >> 4]).astype(np.float32) - 8
    return b[:, :2].copy().view(np.float16).astype(np.float32) * q


def pack_scales_k4(scales, minima):
    """[n, 8] of 6 bits each -> [n, 12]."""
    low = np.hstack([scales[:, :4] | scales[:, 4:] >> 4 << 6, minima[:, :4] | minima[:, 4:] >> 4 << 6])
    return np.hstack([low, scales[:, 4:] & 15 | (minima[:, 4:] & 15) << 4]).astype(np.uint8)


def unpack_scales_k4(p):
    first, second, third = p[:, :4], p[:, 4:8], p[:, 8:]
    scales = np.hstack([first & 63, third & 15 | first >> 6 << 4])
    return scales.astype(np.float32), np.hstack([second & 63, third >> 4 | second >> 6 << 4]).astype(np.float32)


def quantize_k4(x, top):
    """Shared by Q4_K and Q5_K: (f16 scales, packed scales, quants [n, 8, 32])."""
    s, m = (a.reshape(-1, 8) for a in best_scale_and_minimum(x.reshape(-1, 32), top))
    d, dmin = rounded_to_half(s.max(axis=1) / np.float32(63)), rounded_to_half(m.max(axis=1) / np.float32(63))
    scales = np.clip(np.rint(divide(s, np.broadcast_to(d[:, None], s.shape))), 0, 63)
    minima = np.clip(np.rint(divide(m, np.broadcast_to(dmin[:, None], m.shape))), 0, 63)
    step, offset = (d[:, None] * scales)[:, :, None], (dmin[:, None] * minima)[:, :, None]
    x = x.reshape(-1, 8, 32)
    q = np.clip(np.rint(divide(x + offset, np.broadcast_to(step, x.shape))), 0, top).astype(np.uint8)
    head = np.hstack([half(d), half(dmin), pack_scales_k4(scales.astype(np.uint8), minima.astype(np.uint8))])
    return head, q


def quantize_q4_k(x):
    head, q = quantize_k4(x, 15)
    return np.hstack([head, (q[:, 0::2] | q[:, 1::2] << 4).reshape(-1, 128)])


def quantize_q5_k(x):
    head, q = quantize_k4(x, 31)
    high = np.zeros((len(q), 32), np.uint8)
    for k in range(8):
        high |= (q[:, k] >> 4) << k
    q &= 15
    return np.hstack([head, high, (q[:, 0::2] | q[:, 1::2] << 4).reshape(-1, 128)])


def dequantize_k4(b, high, quants):
    d, dmin = (b[:, i : i + 2].copy().view(np.float16).astype(np.float32) for i in (0, 2))
    scales, minima = unpack_scales_k4(b[:, 4:16])
    packed = quants.reshape(-1, 4, 1, 32)
    q = np.concatenate([packed & 15, packed >> 4], axis=2).reshape(-1, 8, 32)
    if high is not None:
        q = q | (high[:, None, :] >> np.arange(8, dtype=np.uint8)[None, :, None] & 1) << 4
    return ((d * scales)[:, :, None] * q.astype(np.float32) - (dmin * minima)[:, :, None]).reshape(-1, 256)


def dequantize_q4_k(b):
    return dequantize_k4(b, None, b[:, 16:])


def dequantize_q5_k(b):
    return dequantize_k4(b, b[:, 16:48], b[:, 48:])


def quantize_q6_k(x):
    s = best_scale(x.reshape(-1, 16), 32).reshape(-1, 16)
    d = rounded_to_half(np.abs(s).max(axis=1) / np.float32(127))
    scales = np.clip(np.rint(divide(s, np.broadcast_to(d[:, None], s.shape))), -128, 127)
    x = x.reshape(-1, 16, 16)
    step = np.broadcast_to((d[:, None] * scales)[:, :, None], x.shape)
    q = (np.clip(np.rint(divide(x, step)), -32, 31) + 32).astype(np.uint8).reshape(-1, 2, 4, 32)  # half, group of 32
    low = (q[:, :, :2] & 15 | (q[:, :, 2:] & 15) << 4).reshape(-1, 128)
    top = q >> 4
    high = (top[:, :, 0] | top[:, :, 1] << 2 | top[:, :, 2] << 4 | top[:, :, 3] << 6).reshape(-1, 64)
    return np.hstack([low, high, scales.astype(np.int8).view(np.uint8), half(d)])


def dequantize_q6_k(b):
    low, high = b[:, :128].reshape(-1, 2, 2, 32), b[:, 128:192].reshape(-1, 2, 1, 32)
    shifts = np.array([0, 2, 4, 6], np.uint8)[None, None, :, None]
    q = np.concatenate([low & 15, low >> 4], axis=2) | (high >> shifts & 3) << 4
    step = b[:, 208:].copy().view(np.float16).astype(np.float32) * b[:, 192:208].copy().view(np.int8).astype(np.float32)
    return (step[:, :, None] * (q.astype(np.float32) - 32).reshape(-1, 16, 16)).reshape(-1, 256)


def quantize_tq2_0(x):
    d, q = ternary(x)
    q = q.reshape(-1, 2, 4, 32)
    quants = q[:, :, 0] | q[:, :, 1] << 2 | q[:, :, 2] << 4 | q[:, :, 3] << 6
    return np.hstack([quants.reshape(-1, 64), half(d)])


def dequantize_tq2_0(b):
    q = (b[:, :64].reshape(-1, 2, 1, 32) >> np.array([0, 2, 4, 6], np.uint8)[None, None, :, None] & 3).reshape(-1, 256)
    return b[:, 64:].copy().view(np.float16).astype(np.float32) * (q.astype(np.float32) - 1)


def ternary(x):
    """(scale, codes 0 to 2) of x ~ scale * (code - 1): numbers beyond half the mean magnitude count, the scale is their mean."""
    magnitude = np.abs(x)
    counts = magnitude > magnitude.mean(axis=1, keepdims=True) * np.float32(0.75)
    d = rounded_to_half(divide((magnitude * counts).sum(axis=1), counts.sum(axis=1).astype(np.float32)))
    return d, (np.sign(x) * counts + 1).astype(np.uint8)


# Elements that share a byte of TQ1_0: bytes, and digits in each.
TQ1_0_PARTS = ((32, 5), (16, 5), (4, 4))


def quantize_tq1_0(x):
    d, q = ternary(x)
    parts, start = [], 0
    for count, digits in TQ1_0_PARTS:
        powers = np.array([81, 27, 9, 3, 1][:digits], np.uint16)[None, :, None]
        number = (q[:, start : start + count * digits].reshape(-1, digits, count) * powers).sum(axis=1)
        parts.append(((number * 256 + 242) // 243).astype(np.uint8))  # as a fraction of 256, rounded up
        start += count * digits
    return np.hstack([*parts, half(d)])


def dequantize_tq1_0(b):
    parts, start = [], 0
    for count, digits in TQ1_0_PARTS:
        powers = np.array([1, 3, 9, 27, 81][:digits], np.uint8)[None, :, None]
        fraction = b[:, None, start : start + count] * powers  # modulo 256
        parts.append((fraction.astype(np.uint16) * 3 >> 8).reshape(-1, digits * count))
        start += count
    return b[:, 52:].copy().view(np.float16).astype(np.float32) * (np.hstack(parts).astype(np.float32) - 1)


E2M1_DOUBLED = np.array([0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12], np.float32)
# The E4M3 scales of NVFP4, halved; code 127 counts as 0.
E4M3_HALVED = np.array([(m if e == 0 else (8 + m) * 2.0 ** (e - 1)) * 2.0**-10 for e in range(16) for m in range(8)][:127], np.float32)


def nvfp4_scale(x):
    """The scale of a whole tensor: its largest number under the largest scale of a group."""
    largest = np.float32(np.abs(x).max())
    return largest / (E2M1_DOUBLED.max() * E4M3_HALVED.max()) if largest > 0 else np.float32(1)


def quantize_nvfp4(x):
    groups = x.reshape(-1, 16)
    wanted = np.abs(groups).max(axis=1) / E2M1_DOUBLED.max()
    middles = (E4M3_HALVED[1:] + E4M3_HALVED[:-1]) / 2
    scales = np.searchsorted(middles, wanted).astype(np.uint8)
    scaled = divide(groups, np.broadcast_to(E4M3_HALVED[scales][:, None], groups.shape))
    magnitude = np.searchsorted((E2M1_DOUBLED[1:8] + E2M1_DOUBLED[:7]) / 2, np.abs(scaled)).astype(np.uint8)
    q = magnitude | (scaled < 0).astype(np.uint8) << 3
    return np.hstack([scales.reshape(-1, 4), (q[:, :8] | q[:, 8:] << 4).reshape(-1, 32)])


def dequantize_nvfp4(b):
    scales = np.append(E4M3_HALVED, np.float32(0))[b[:, :4] & 127]
    scales[b[:, :4] == 255] = 240
    quants = b[:, 4:].reshape(-1, 4, 8)
    values = E2M1_DOUBLED[np.concatenate([quants & 15, quants >> 4], axis=2)]
    return (scales[:, :, None] * values).reshape(-1, 64)


def quantize_mxfp4(x):
    largest = np.maximum(np.abs(x).max(axis=1), np.float32(2) ** -100)
    exponent = np.clip(np.floor(np.log2(largest)) - 2 + 127, 1, 254).astype(np.int32)
    scaled = x / np.exp2(exponent - 128).astype(np.float32)[:, None]
    magnitude = np.searchsorted((E2M1_DOUBLED[1:8] + E2M1_DOUBLED[:7]) / 2, np.abs(scaled)).astype(np.uint8)
    q = magnitude | (scaled < 0).astype(np.uint8) << 3
    return np.hstack([exponent.astype(np.uint8)[:, None], q[:, :16] | q[:, 16:] << 4])


def dequantize_mxfp4(b):
    quants = b[:, 1:]
    values = E2M1_DOUBLED[np.concatenate([quants & 15, quants >> 4], axis=1)]
    return (np.exp2(b[:, :1].astype(np.float32) - 128) * values).reshape(-1, 32)


def quantize_bf16(x):
    bits = x.view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16).view(np.uint8)


QUANTIZE = {
    "F32": lambda x: x.view(np.uint8), "F16": lambda x: half(x), "BF16": quantize_bf16, "Q8_0": quantize_q8_0,
    "Q4_0": quantize_q4_0, "Q4_K": quantize_q4_k, "Q5_K": quantize_q5_k, "Q6_K": quantize_q6_k, "NVFP4": quantize_nvfp4,
    "TQ1_0": quantize_tq1_0, "TQ2_0": quantize_tq2_0, "MXFP4": quantize_mxfp4,
}
DEQUANTIZE = {
    "F32": lambda b: b.copy().view(np.float32), "F16": lambda b: b.copy().view(np.float16).astype(np.float32),
    "BF16": lambda b: (b.copy().view(np.uint16).astype(np.uint32) << 16).view(np.float32), "Q8_0": dequantize_q8_0,
    "Q4_0": dequantize_q4_0, "Q4_K": dequantize_q4_k, "Q5_K": dequantize_q5_k, "Q6_K": dequantize_q6_k,
    "NVFP4": dequantize_nvfp4, "TQ1_0": dequantize_tq1_0, "TQ2_0": dequantize_tq2_0,
    "MXFP4": dequantize_mxfp4,
}


def dequantize(kind, data):
    """The values of whole blocks, as a flat float32 array."""
    blocks = np.frombuffer(data, np.uint8).reshape(-1, TYPES[kind][2])
    return DEQUANTIZE[kind](blocks).reshape(-1)


def quantize(kind, values):
    """Pieces of bytes that together hold `values` (flat float32) in the format `kind`."""
    for start in range(0, len(values), CHUNK):
        piece = np.ascontiguousarray(values[start : start + CHUNK], dtype=np.float32)
        yield np.ascontiguousarray(QUANTIZE[kind](piece.reshape(-1, TYPES[kind][1]))).tobytes()
