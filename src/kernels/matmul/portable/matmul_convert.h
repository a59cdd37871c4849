#pragma once

#include <cstddef>
#include <cstdint>

#include "device/device.h"
#include "ops/matmul.h"

namespace rocmforge {

/// Activations of 16 bits in a call's workspace, as ConvertRowsArgs says: rows [tokens, k padded to matmul_k_padding], then
/// their scales.
struct ConvertedRows {
  std::uint16_t* rows = nullptr;
  float* scales = nullptr;
};

std::size_t converted_bytes(std::int64_t tokens, std::int64_t k);

/// The place of the converted rows in the workspace of `call`.
ConvertedRows place_converted(const Matmul::Args& call);

/// Elements from one converted row to the next.
std::int64_t converted_stride(std::int64_t k);

/// Converts all rows to binary16, dividing rows with large numbers by a power of two, or to bfloat16, where all scales are
/// 1.
void convert_rows(const Matmul::Args& call, bool bfloat, const ConvertedRows& converted, Stream& stream);

}  // namespace rocmforge
