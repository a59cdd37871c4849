#pragma once

#include <cstdint>

namespace rocmforge::gpu {

/// Grid: columns, rows.
struct OverwriteRowsArgs {
  const float* x;            ///< rows x_stride apart
  const std::int32_t* from;  ///< [count], rows of x
  const std::int32_t* ids;   ///< [count], rows of out
  float* out;                ///< rows of dim elements
  std::int64_t x_stride;
  std::int64_t count;
  std::int64_t dim;
  std::int64_t add;  ///< 0: rows are replaced
};

}  // namespace rocmforge::gpu
