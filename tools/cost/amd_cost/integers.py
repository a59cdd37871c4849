"""What the integer instructions of address arithmetic compute: by name, functions of numpy arrays of 32 or 64 bits without sign.

A wave's addresses and its branches depend on these, on a division by way of binary32 numbers, and on what memory holds. What is not
listed here gives an unknown value.
"""
import numpy as np

U32, U64, I32, I64, F32 = np.uint32, np.uint64, np.int32, np.int64, np.float32


def signed(x):
    return np.asarray(x, U32).view(I32)


def signed64(x):
    return np.asarray(x, U64).view(I64)


def bits(x):
    return np.asarray(x, F32).view(U32)


def number(x):
    return np.asarray(x, U32).view(F32)


def low(x):
    return np.asarray(x, U64).astype(U32)


def wide(x):
    return np.asarray(x, U32).astype(U64)


def wide_signed(x):
    return signed(x).astype(I64).view(U64)


def to_unsigned(x):
    return np.clip(np.nan_to_num(np.trunc(number(x)).astype(np.float64)), 0, 2**32 - 1).astype(U64).astype(U32)


def to_signed(x):
    return np.clip(np.nan_to_num(np.trunc(number(x)).astype(np.float64)), -2**31, 2**31 - 1).astype(I64).astype(U32)


def field(x, offset, width):
    return np.asarray(x, U32) >> (offset & U32(31)) & ((U64(1) << wide(width & U32(31))) - U64(1)).astype(U32)


def signed_field(x, offset, width):
    width = width & U32(31)
    unused = (U32(32) - width) & U32(31)
    value = field(x, offset, width)
    return np.where(width == 0, U32(0), (signed(value << unused) >> unused.astype(I32)).view(U32))


def permuted(a, b, selector):
    joined, selector = np.broadcast_arrays(wide(a) << U64(32) | wide(b), np.asarray(selector, U32))
    result = np.zeros_like(joined)
    for i in range(4):
        which = (wide(selector) >> U64(8 * i)) & U64(255)
        byte = np.where(which < 8, joined >> (np.minimum(which, U64(7)) * U64(8)) & U64(255), np.where(which == 12, U64(0), U64(255)))
        result |= byte << U64(8 * i)
    return low(result)


def count_leading(x):
    value = np.asarray(x, U32)
    return np.where(value == 0, U32(0xffffffff), U32(31) - np.floor(np.log2(np.maximum(value, 1).astype(np.float64))).astype(U32))


def low16(x):
    return np.asarray(x, U32) & U32(0xffff)


def c24(x):
    return np.asarray(x, U32) & U32(0xffffff)


def s24(x):
    return (signed(np.asarray(x, U32) << U32(8)) >> I32(8)).astype(I64)


# Operations on 32-bit operands, in the order of the assembly.
WORDS = {
    "mov_b32": lambda a: a + U32(0), "not_b32": lambda a: ~a, "bfrev_b32": None,
    "add_u32": lambda a, b: a + b, "sub_u32": lambda a, b: a - b, "subrev_u32": lambda a, b: b - a,
    "mul_lo_u32": lambda a, b: a * b, "mul_hi_u32": lambda a, b: low(wide(a) * wide(b) >> U64(32)),
    "mul_hi_i32": lambda a, b: low((signed(a).astype(I64) * signed(b).astype(I64) >> I64(32)).view(U64)),
    "mul_u32_u24": lambda a, b: c24(a) * c24(b), "mul_i32_i24": lambda a, b: (s24(a) * s24(b)).astype(U32),
    "mul_hi_u32_u24": lambda a, b: low(wide(c24(a)) * wide(c24(b)) >> U64(32)),
    "mad_u32_u24": lambda a, b, c: c24(a) * c24(b) + c, "mad_i32_i24": lambda a, b, c: (s24(a) * s24(b)).astype(U32) + c,
    "mad_u32_u16": lambda a, b, c: low16(a) * low16(b) + c,
    "lshlrev_b32": lambda a, b: b << (a & U32(31)), "lshrrev_b32": lambda a, b: b >> (a & U32(31)),
    "ashrrev_i32": lambda a, b: (signed(b) >> (a & U32(31)).astype(I32)).view(U32),
    "and_b32": lambda a, b: a & b, "or_b32": lambda a, b: a | b, "xor_b32": lambda a, b: a ^ b, "xnor_b32": lambda a, b: ~(a ^ b),
    "lshl_or_b32": lambda a, b, c: a << (b & U32(31)) | c, "lshl_add_u32": lambda a, b, c: (a << (b & U32(31))) + c,
    "add_lshl_u32": lambda a, b, c: (a + b) << (c & U32(31)), "add3_u32": lambda a, b, c: a + b + c, "and_or_b32": lambda a, b, c: a & b | c,
    "or3_b32": lambda a, b, c: a | b | c, "xad_u32": lambda a, b, c: (a ^ b) + c, "xor3_b32": lambda a, b, c: a ^ b ^ c,
    "bfe_u32": field, "bfe_i32": signed_field, "bfi_b32": lambda a, b, c: a & b | ~a & c,
    "alignbit_b32": lambda a, b, c: low((wide(a) << U64(32) | wide(b)) >> wide(c & U32(31))),
    "alignbyte_b32": lambda a, b, c: low((wide(a) << U64(32) | wide(b)) >> wide((c & U32(3)) * U32(8))), "perm_b32": permuted,
    "min_u32": np.minimum, "max_u32": np.maximum, "clz_i32_u32": count_leading, "ffbh_u32": count_leading,
    "min_i32": lambda a, b: np.minimum(signed(a), signed(b)).view(U32), "max_i32": lambda a, b: np.maximum(signed(a), signed(b)).view(U32),
    "max3_i32": lambda a, b, c: np.maximum(np.maximum(signed(a), signed(b)), signed(c)).view(U32),
    "med3_i32": lambda a, b, c: np.sort(np.broadcast_arrays(signed(a), signed(b), signed(c)), axis=0)[1].view(U32),
    "maxmin_i32": lambda a, b, c: np.minimum(np.maximum(signed(a), signed(b)), signed(c)).view(U32),
    "minmax_i32": lambda a, b, c: np.maximum(np.minimum(signed(a), signed(b)), signed(c)).view(U32),
    "maxmin_u32": lambda a, b, c: np.minimum(np.maximum(a, b), c), "minmax_u32": lambda a, b, c: np.maximum(np.minimum(a, b), c),
    "cvt_f32_u32": lambda a: bits(np.asarray(a, U32).astype(F32)), "cvt_f32_i32": lambda a: bits(signed(a).astype(F32)),
    "cvt_u32_f32": to_unsigned, "cvt_i32_f32": to_signed, "rcp_f32": lambda a: bits(F32(1) / number(a)),
    "rcp_iflag_f32": lambda a: bits(F32(1) / number(a)), "s_rcp_f32": lambda a: bits(F32(1) / number(a)),
    "mul_f32": lambda a, b: bits(number(a) * number(b)), "add_f32": lambda a, b: bits(number(a) + number(b)),
    "sub_f32": lambda a, b: bits(number(a) - number(b)), "trunc_f32": lambda a: bits(np.trunc(number(a))),
    "fma_f32": lambda a, b, c: bits((number(a).astype(np.float64) * number(b) + number(c)).astype(F32)),
    "add_u16": lambda a, b: low16(a + b), "sub_u16": lambda a, b: low16(a - b), "subrev_u16": lambda a, b: low16(b - a),
    "mul_lo_u16": lambda a, b: low16(low16(a) * low16(b)), "lshlrev_b16": lambda a, b: low16(b << (a & U32(15))),
    "lshrrev_b16": lambda a, b: low16(b) >> (a & U32(15)), "and_b16": lambda a, b: low16(a & b), "or_b16": lambda a, b: low16(a | b),
    "mad_u16": lambda a, b, c: low16(low16(a) * low16(b) + c), "min_u16": lambda a, b: np.minimum(low16(a), low16(b)),
    "max_u16": lambda a, b: np.maximum(low16(a), low16(b)),
    # Scalar instructions only.
    "lshl_b32": lambda a, b: a << (b & U32(31)), "lshr_b32": lambda a, b: a >> (b & U32(31)),
    "ashr_i32": lambda a, b: (signed(a) >> (b & U32(31)).astype(I32)).view(U32), "mul_i32": lambda a, b: a * b,
    "and_not1_b32": lambda a, b: a & ~b, "or_not1_b32": lambda a, b: a | ~b, "nand_b32": lambda a, b: ~(a & b), "nor_b32": lambda a, b: ~(a | b),
    "lshl1_add_u32": lambda a, b: (a << U32(1)) + b, "lshl2_add_u32": lambda a, b: (a << U32(2)) + b,
    "lshl3_add_u32": lambda a, b: (a << U32(3)) + b, "lshl4_add_u32": lambda a, b: (a << U32(4)) + b,
    "bfm_b32": lambda a, b: ((U32(1) << (a & U32(31))) - U32(1)) << (b & U32(31)), "pack_ll_b32_b16": lambda a, b: low16(a) | b << U32(16),
    "pack_lh_b32_b16": lambda a, b: low16(a) | b & U32(0xffff0000), "pack_hh_b32_b16": lambda a, b: a >> U32(16) | b & U32(0xffff0000),
    "abs_i32": lambda a: np.abs(signed(a)).view(U32), "sext_i32_i16": lambda a: ((signed(a << U32(16))) >> I32(16)).view(U32),
    "sext_i32_i8": lambda a: ((signed(a << U32(24))) >> I32(24)).view(U32),
    "ff1_i32_b32": lambda a: count_leading(a & (~a + U32(1))) ^ U32(31), "ctz_i32_b32": lambda a: count_leading(a & (~a + U32(1))) ^ U32(31),
    "flbit_i32_b32": count_leading,
}
# Operations on 64-bit operands; shift counts are 32 bits, widened.
PAIRS = {
    "mov_b64": lambda a: a + U64(0), "not_b64": lambda a: ~a, "add_u64": lambda a, b: a + b, "sub_u64": lambda a, b: a - b, "mul_u64": lambda a, b: a * b,
    "and_b64": lambda a, b: a & b, "or_b64": lambda a, b: a | b, "xor_b64": lambda a, b: a ^ b, "and_not1_b64": lambda a, b: a & ~b,
    "or_not1_b64": lambda a, b: a | ~b, "lshl_b64": lambda a, b: a << (b & U64(63)), "lshr_b64": lambda a, b: a >> (b & U64(63)),
    "ashr_i64": lambda a, b: (signed64(a) >> (b & U64(63)).astype(I64)).view(U64), "lshlrev_b64": lambda a, b: b << (a & U64(63)),
    "lshrrev_b64": lambda a, b: b >> (a & U64(63)), "ashrrev_i64": lambda a, b: (signed64(b) >> (a & U64(63)).astype(I64)).view(U64),
    "lshl_add_u64": lambda a, b, c: (a << (b & U64(7))) + c, "xnor_b64": lambda a, b: ~(a ^ b), "nor_b64": lambda a, b: ~(a | b),
    "nand_b64": lambda a, b: ~(a & b),
}
COMPARE = {"eq": np.equal, "ne": np.not_equal, "lg": np.not_equal, "lt": np.less, "gt": np.greater, "le": np.less_equal, "ge": np.greater_equal}
# Other names of the same operation in some instruction sets.
SAME = {"andn2": "and_not1", "orn2": "or_not1"}


def compare(kind, size, a, b):
    """Comparison `kind` of operands of `size` bits with or without sign (u32, i64, ...)."""
    if size in ("u16", "i16"):
        a, b = low16(a), low16(b)
        if size == "i16":
            a, b = signed(a << U32(16)), signed(b << U32(16))
    elif size == "i32":
        a, b = signed(a), signed(b)
    elif size == "i64":
        a, b = signed64(a), signed64(b)
    return COMPARE[kind](a, b)


def plain_name(name):
    """A name without its unit and without what differs between instruction sets (v_add_nc_u32, s_add_co_i32: add_u32)."""
    name = name[2:] if name[:2] in ("v_", "s_") else name
    name = name.replace("_nc_", "_").replace("add_co_i32", "add_u32").replace("sub_co_i32", "sub_u32")
    for old, new in SAME.items():
        name = name.replace(old, new)
    for verb in ("add", "sub", "subrev"):
        if name in (f"{verb}_i32", f"{verb}_co_u32"):
            return f"{verb}_u32"
        if name == f"{verb}_i16":
            return f"{verb}_u16"
    return name
