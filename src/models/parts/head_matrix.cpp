#include "models/parts/head_matrix.h"

#include <vector>

#include "tensor/quant/dequantize.h"

namespace rocmforge {

std::int64_t HeadMatrix::head_bytes() const {
  return in_place() ? tensor_rows * static_cast<std::int64_t>(row_bytes(spec.weight, spec.k))
                    : static_cast<std::int64_t>(kernel->stored_bytes(spec));
}

std::size_t HeadMatrix::skipped_bytes() const {
  return static_cast<std::size_t>(first_row) * row_bytes(tensor->tensor.dtype, transposed ? spec.n : spec.k);
}

void HeadMatrix::transpose(std::int64_t head, float* to) const {
  const DType type = tensor->tensor.dtype;
  const auto* rows = static_cast<const std::byte*>(tensor->tensor.data) + skipped_bytes() +
                     static_cast<std::size_t>(head * tensor_rows) * row_bytes(type, spec.n);
  std::vector<float> row(static_cast<std::size_t>(spec.n));
  for (std::int64_t column = 0; column < spec.k; ++column) {
    dequantize_row(type, rows + static_cast<std::size_t>(column) * row_bytes(type, spec.n), row.data(), spec.n);
    for (std::int64_t n = 0; n < spec.n; ++n) {
      to[n * spec.k + column] = row[static_cast<std::size_t>(n)];
    }
  }
}

void HeadMatrix::copy(std::byte* to, ExecutionContext& context) const {
  std::vector<float> turned(transposed ? static_cast<std::size_t>(spec.n * spec.k) : 0);
  const auto* rows = static_cast<const std::byte*>(tensor->tensor.data) + skipped_bytes();
  const std::int64_t apart = tensor_rows * static_cast<std::int64_t>(row_bytes(spec.weight, spec.k));
  for (std::int64_t head = 0; head < spec.heads; ++head, to += head_bytes()) {
    const void* from = rows + head * apart;
    if (transposed) {
      transpose(head, turned.data());
      from = turned.data();
    }
    kernel->store(spec, from, to, context);
  }
}

void HeadMatrix::run(const Step& step, const float* x, std::int64_t x_stride, float* out, bool single_rows) const {
  kernel->run(spec,
              {.x = x,
               .x_stride = x_stride,
               .tokens = step.tokens,
               .weight = data,
               .head_bytes = head_bytes(),
               .out = out,
               .workspace = step.buffers.scratch,
               .single_rows = single_rows ? &step.batch : nullptr},
              *step.context);
}

}  // namespace rocmforge
