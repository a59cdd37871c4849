#pragma once

namespace rocmforge::amd {

/// Waves that share 16 query rows, each with a part of the dimensions, and sets of 16 rows of a work-group (RDNA).
constexpr int prefill_parts(int head_dim) { return head_dim > 256 ? 4 : 2; }
constexpr int prefill_row_waves(int head_dim) { return head_dim > 256 ? 2 : 4; }

/// CDNA: a work-group is four waves and so many rows.
inline constexpr int prefill_split_rows = 64;
/// Elements between two keys that are at most apart there: bytes between two keys of eight are a product of 24 bits.
inline constexpr long most_split_stride = 1L << 22;

}  // namespace rocmforge::amd
