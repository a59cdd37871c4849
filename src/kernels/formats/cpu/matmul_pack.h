#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/formats/cpu/matmul_layout.h"
#include "ops/registry.h"

namespace rocmforge {

/// The packed layout of a format, or null when the type is not one of packed::formats.
const PackedFormat* find_packed_format(DType type);

/// Packs the group of 16 rows that starts at row `16 * group` of `rows` [n, k] (as the file stores them) to `destination`,
/// group_bytes long.
void pack_matmul_group(const PackedFormat& format, const std::uint8_t* rows, std::int64_t n, std::int64_t k,
                       std::int64_t group, std::uint8_t* destination);

/// Likewise for F32, F16 and BF16, plain_group_bytes long.
void pack_plain_group(DType type, const std::uint8_t* rows, std::int64_t n, std::int64_t k, std::int64_t group,
                      std::uint8_t* destination);

/// Groups [begin, end) of a weight of any format to their places in `packed`.
void pack_matmul_groups(DType type, const std::uint8_t* rows, std::int64_t n, std::int64_t k, std::int64_t begin,
                        std::int64_t end, std::uint8_t* packed);

/// Bytes of a group and of a whole packed weight [n, k].
std::int64_t packed_group_bytes(DType type, std::int64_t k);
std::size_t packed_matmul_bytes(DType type, std::int64_t n, std::int64_t k);

/// Refuses a block format without a packed layout.
Support check_packed_format(DType type);

}  // namespace rocmforge
