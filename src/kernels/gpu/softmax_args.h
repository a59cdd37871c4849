#pragma once

#include <cstdint>

namespace rocmforge::gpu {

/// One work-group a row.
struct RowSoftmaxArgs {
  float* x;  ///< [rows, cols]
  std::int64_t rows;
  std::int64_t cols;
};

}  // namespace rocmforge::gpu
