#pragma once

namespace rocmforge::amd {

/// Waves that share 16 query rows, each with a part of the dimensions, and sets of 16 rows of a work-group. On CDNA they do
/// so at 512 alone; up to 256 a work-group is four waves there, and prefill_split_rows rows.
constexpr int prefill_parts(int head_dim) { return head_dim > 256 ? 4 : 2; }
constexpr int prefill_row_waves(int head_dim) { return head_dim > 256 ? 2 : 4; }
inline constexpr int prefill_split_rows = 64;
/// Elements between two keys that are at most apart there: bytes between two keys of eight are a product of 24 bits.
inline constexpr long most_split_stride = 1L << 22;

}  // namespace rocmforge::amd
