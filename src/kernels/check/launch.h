#pragma once

#include <algorithm>
#include <cstdint>

#include "base/math.h"
#include "device/device.h"
#include "kernels/check/matmul_args.h"

namespace rocmforge::check_kernels {

/// The factors of rows' norms, for the operations that have one before a product.
inline constexpr Kernel<RowFactorsArgs> row_factors_kernel{"matmul_check", "check_row_factors"};

/// One thread for each of `elements`, up to a grid that every device can start; threads then take several.
inline LaunchShape one_thread_each(std::int64_t elements) {
  constexpr std::int64_t threads = 256;
  constexpr std::int64_t most_groups = std::int64_t{1} << 20;
  LaunchShape shape;
  shape.grid[0] = static_cast<std::uint32_t>(std::clamp<std::int64_t>(divide_up(elements, threads), 1, most_groups));
  shape.block[0] = threads;
  return shape;
}

}  // namespace rocmforge::check_kernels
