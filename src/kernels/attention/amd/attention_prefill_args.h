#pragma once

namespace rocmforge::amd {

/// The number of waves that share 16 query rows, each with a part of the dimensions, and of sets of 16 rows in a work-group.
/// On CDNA waves do so at 512 alone; up to 256 a work-group there is four waves with prefill_split_rows rows.
constexpr int prefill_parts(int head_dim) { return head_dim > 256 ? 4 : 2; }
constexpr int prefill_row_waves(int head_dim) { return head_dim > 256 ? 2 : 4; }
inline constexpr int prefill_split_rows = 64;
/// Most elements between two keys on CDNA: a byte offset within eight keys is a product of 24 bits.
inline constexpr long most_split_stride = 1L << 22;

}  // namespace rocmforge::amd
