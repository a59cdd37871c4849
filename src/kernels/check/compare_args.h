#pragma once

#include <cstdint>

#include "tensor/dtype.h"

namespace rocmforge::check_kernels {

/// What one row of an output differs in from the expected one.
struct RowDifference {
  double error;          ///< sum of the squares of the differences, of finite elements
  double expected;       ///< sum of the squares of the expected row
  std::int32_t missing;  ///< elements that are not finite where the expected ones are
  std::int32_t unused;
};

struct CompareArgs {
  const void* actual;
  const void* expected;        ///< both of `dtype`, rows of `width` elements
  RowDifference* differences;  ///< [rows]
  std::int64_t rows;
  std::int64_t width;
  DType dtype;
  std::int32_t unused;
};

/// Elements without a pattern, of mean 0 and variance 1, each a function of its index and `seed` alone.
struct FillArgs {
  void* to;
  std::int64_t count;
  std::uint64_t seed;
  DType dtype;  ///< f32, f16 or bf16
  float size;   ///< factor
};

/// Blocks of a quantised format, each drawn from a pool of valid ones.
struct FillBlocksArgs {
  std::uint8_t* to;
  const std::uint8_t* pool;
  std::int64_t count;  ///< of blocks
  std::int64_t pool_count;
  std::int64_t block_bytes;
  std::uint64_t seed;
};

}  // namespace rocmforge::check_kernels
