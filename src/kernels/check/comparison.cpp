#include "kernels/check/comparison.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/check/compare_args.h"
#include "kernels/check/launch.h"

namespace rocmforge {
namespace {

using check_kernels::CompareArgs;
using check_kernels::FillArgs;
using check_kernels::FillBlocksArgs;
using check_kernels::one_thread_each;
using check_kernels::RowDifference;

constexpr Kernel<FillArgs> fill_kernel{"compare", "check_fill"};
constexpr Kernel<FillBlocksArgs> fill_blocks_kernel{"compare", "check_fill_blocks"};
constexpr Kernel<CompareArgs> compare_kernel{"compare", "check_compare"};

/// Of the root mean square of all rows' norms. A row that is smaller is a sum of values that nearly cancel, or whose weights
/// are near the least numbers of a 16-bit type (behind a large sink): its own relative error says little.
constexpr double least_row_norm = 1e-3;

}  // namespace

void fill_random(Stream& stream, void* to, DType dtype, std::int64_t count, std::uint64_t seed, float size) {
  fill_kernel.launch(stream, one_thread_each(count), {.to = to, .count = count, .seed = seed, .dtype = dtype, .size = size});
}

void fill_blocks(Stream& stream, void* to, const void* pool, std::int64_t count, std::int64_t pool_count,
                 std::int64_t block_bytes, std::uint64_t seed) {
  fill_blocks_kernel.launch(stream, one_thread_each(count * block_bytes),
                            {.to = static_cast<std::uint8_t*>(to),
                             .pool = static_cast<const std::uint8_t*>(pool),
                             .count = count,
                             .pool_count = pool_count,
                             .block_bytes = block_bytes,
                             .seed = seed});
}

Difference compare_on_device(Device& device, const void* actual, const void* expected, DType dtype, std::int64_t rows,
                             std::int64_t width, double row_tolerance) {
  std::vector<RowDifference> found(static_cast<std::size_t>(rows));
  const std::size_t size_bytes = found.size() * sizeof(RowDifference);
  const DeviceBuffer memory = device.allocate(size_bytes, "a comparison");
  compare_kernel.launch(device.stream(), one_thread_each(rows),
                        {.actual = actual,
                         .expected = expected,
                         .differences = reinterpret_cast<RowDifference*>(memory.data()),
                         .rows = rows,
                         .width = width,
                         .dtype = dtype,
                         .unused = 0});
  device.download(found.data(), memory.data(), size_bytes);
  Difference all;
  double error = 0.0;
  double norm = 0.0;
  for (const RowDifference& one : found) {
    error += one.error;
    norm += one.expected;
  }
  const double least = rows > 0 ? least_row_norm * least_row_norm * norm / static_cast<double>(rows) : 0.0;
  for (std::size_t row = 0; row < found.size(); ++row) {
    const RowDifference& one = found[row];
    const double scale = std::max(one.expected, least);
    const double relative = std::sqrt(scale > 0.0 ? one.error / scale : one.error);
    if (one.missing > 0) {
      ++all.missing_rows;
    } else if (!(relative <= row_tolerance)) {
      ++all.wrong_rows;
    }
    if (relative > all.worst) {
      all.worst = relative;
      all.worst_row = static_cast<std::int64_t>(row);
    }
  }
  all.relative = std::sqrt(norm > 0.0 ? error / norm : error);
  return all;
}

}  // namespace rocmforge
