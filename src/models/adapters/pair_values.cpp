#include "models/adapters/pair_values.h"

#include <algorithm>
#include <span>

#include "base/math.h"
#include "tensor/quant/dequantize.h"

namespace rocmforge {

std::int64_t padded_rank(std::int64_t rank) { return round_up(rank, 16); }

std::vector<float> dequantised_rows(const GgufTensor& tensor, std::int64_t first, std::int64_t count) {
  const Tensor& data = tensor.tensor;
  const std::int64_t columns = data.shape.cols();
  const auto bytes = static_cast<std::int64_t>(row_bytes(data.dtype, columns));
  std::vector<float> values(static_cast<std::size_t>(count * columns));
  for (std::int64_t row = 0; row < count; ++row) {
    dequantize_row(data.dtype, static_cast<const std::byte*>(data.data) + (first + row) * bytes,
                   values.data() + row * columns, columns);
  }
  return values;
}

std::vector<float> dequantised(const GgufTensor& tensor) { return dequantised_rows(tensor, 0, tensor.tensor.shape.rows()); }

std::vector<float> with_padding(const std::vector<float>& rows, std::int64_t rank, std::int64_t width, float factor) {
  const std::int64_t count = std::ssize(rows) / rank;
  std::vector<float> wide(static_cast<std::size_t>(count * width));
  for (std::int64_t row = 0; row < count; ++row) {
    std::transform(rows.begin() + row * rank, rows.begin() + (row + 1) * rank, wide.begin() + row * width,
                   [factor](float value) { return value * factor; });
  }
  return wide;
}

std::vector<float> selected(std::vector<float> matrix, std::int64_t rows, std::int64_t columns, const Selection& of_rows,
                            const Selection& of_columns) {
  if (of_rows.whole() && of_columns.whole()) {
    return matrix;
  }
  const std::int64_t taken_rows = of_rows.whole() ? rows : of_rows.count();
  const std::int64_t taken_columns = of_columns.whole() ? columns : of_columns.count();
  std::vector<float> taken(static_cast<std::size_t>(taken_rows * taken_columns));
  copy_selected(DType::f32, matrix.data(), rows, columns, of_rows, of_columns,
                std::as_writable_bytes(std::span(taken)).data());
  return taken;
}

}  // namespace rocmforge
