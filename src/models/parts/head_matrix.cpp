#include "models/parts/head_matrix.h"

#include <fmt/format.h>

#include <cstring>
#include <vector>

#include "models/plan/execution_plan.h"
#include "tensor/quant/dequantize.h"
#include "weights/gguf_value.h"

namespace rocmforge {

std::int64_t HeadMatrix::head_bytes() const {
  if (const std::size_t packed = kernel->packed_bytes(spec); packed > 0) {
    return static_cast<std::int64_t>(packed);
  }
  return (transposed ? spec.n : tensor_rows) * static_cast<std::int64_t>(row_bytes(spec.weight, spec.k));
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
  const bool packed = kernel->packed_bytes(spec) > 0;
  std::vector<float> turned(transposed ? static_cast<std::size_t>(spec.n * spec.k) : 0);
  const auto* rows = static_cast<const std::byte*>(tensor->tensor.data) + skipped_bytes();
  const std::int64_t apart = tensor_rows * static_cast<std::int64_t>(row_bytes(spec.weight, spec.k));
  for (std::int64_t head = 0; head < spec.heads; ++head, to += head_bytes()) {
    const void* from = rows + head * apart;
    if (transposed) {
      transpose(head, turned.data());
      from = turned.data();
    }
    if (packed) {
      kernel->pack(spec, from, to, context);
    } else {
      std::memcpy(to, from, static_cast<std::size_t>(head_bytes()));
    }
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

const HeadMatrix* ExecutionPlan::heads(const HeadTensorName& name, HeadMatmul::Spec spec) {
  HeadMatrix matrix;
  matrix.tensor_rows = spec.n;
  const std::string own = name.own + ".weight";
  if (has_tensor(own) || !has_tensor(name.joined + ".weight")) {
    matrix.tensor = &tensor(own, {spec.heads, spec.n, spec.k});
  } else {
    matrix.tensor = &tensor(name.joined + ".weight", {spec.heads * name.all_rows, name.transposed ? spec.n : spec.k});
    matrix.first_row = name.first_row;
    matrix.tensor_rows = name.all_rows;
    matrix.transposed = name.transposed;
  }
  refuse_tensor(name.own + ".scale");
  refuse_tensor(name.joined + ".scale");
  spec.weight = matrix.transposed ? DType::f32 : matrix.tensor->tensor.dtype;
  Choice<HeadMatmul> choice = with_context(file_->path().string() + ": tensor " + quote(matrix.tensor->name),
                                           [&] { return registry_->choose<HeadMatmul>(spec, device_); });
  matrix.spec = spec;
  matrix.kernel = choice.kernel;
  const std::size_t weight_bytes = static_cast<std::size_t>(spec.heads * spec.n) * row_bytes(spec.weight, spec.k);
  bytes_per_token_ += weight_bytes;
  needs_scratch(choice.kernel->workspace_bytes(spec, options_.max_batch_tokens));
  line({.operation = name.own,
        .spec = to_string(spec),
        .kernel = std::string(choice.kernel->name()),
        .refusals = std::move(choice.refusals),
        .weight_bytes = weight_bytes,
        .activation_bytes = decode_bytes(spec),
        .uses = {KernelUse<HeadMatmul>{spec, choice.kernel}}});
  return &head_matrices_.emplace_back(std::move(matrix));
}

const void* ExecutionPlan::load_heads(const HeadMatrix& matrix, WeightStore& store, ExecutionContext& context) const {
  if (matrix.in_place()) {
    return static_cast<const std::byte*>(store.view(*matrix.tensor)) + matrix.skipped_bytes();
  }
  const GgufTensor* const tensors[] = {matrix.tensor};
  return store.assemble(tensors, matrix.bytes(), [&](std::byte* to) { matrix.copy(to, context); });
}

}  // namespace rocmforge
