#include "models/parts/expert_matrix.h"

namespace rocmforge {

std::int64_t ExpertMatrix::expert_bytes() const {
  return in_place() ? tensor_rows * static_cast<std::int64_t>(row_bytes(spec.weight, spec.k))
                    : static_cast<std::int64_t>(kernel->stored_bytes(spec));
}

const std::byte* ExpertMatrix::rows(std::int64_t expert) const {
  if (shared != nullptr && expert == spec.experts - 1) {
    return static_cast<const std::byte*>(shared->tensor.data);
  }
  const auto bytes = static_cast<std::int64_t>(row_bytes(spec.weight, of_columns.whole() ? spec.k : of_columns.of));
  if (stacked()) {
    return static_cast<const std::byte*>(tensors[0]->tensor.data) + (expert * tensor_rows + first_row) * bytes;
  }
  return static_cast<const std::byte*>(tensors[static_cast<std::size_t>(expert)]->tensor.data);
}

void ExpertMatrix::copy(std::int64_t expert, std::byte* to) const {
  copy_selected(spec.weight, rows(expert), of_rows.whole() ? spec.n : of_rows.of,
                of_columns.whole() ? spec.k : of_columns.of, of_rows, of_columns, to);
}

ExpertWeight ExpertMatrix::weight() const {
  return {.dtype = spec.weight,
          .data = data,
          .n = spec.n,
          .expert_bytes = expert_bytes(),
          .bias = bias != nullptr ? bias->data + first_row + (of_rows.whole() ? 0 : of_rows.ranges[0].first) : nullptr,
          .bias_stride = tensor_rows,
          .scale = scale != nullptr ? scale->data : nullptr};
}

}  // namespace rocmforge
