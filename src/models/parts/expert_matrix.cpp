#include "models/parts/expert_matrix.h"

#include <fmt/format.h>

#include <cstring>

#include "models/plan/execution_plan.h"
#include "models/plan/weight_choice.h"
#include "weights/gguf_value.h"

namespace rocmforge {

std::int64_t ExpertMatrix::expert_bytes() const {
  if (const std::size_t packed = kernel->packed_bytes(spec); packed > 0) {
    return static_cast<std::int64_t>(packed);
  }
  return (in_place() ? tensor_rows : spec.n) * static_cast<std::int64_t>(row_bytes(spec.weight, spec.k));
}

std::size_t ExpertMatrix::slot_bytes() const {
  const std::size_t packed = kernel->packed_bytes(spec);
  return packed > 0 ? packed : static_cast<std::size_t>(spec.n) * row_bytes(spec.weight, spec.k);
}

const std::byte* ExpertMatrix::rows(std::int64_t expert) const {
  if (shared != nullptr && expert == spec.experts - 1) {
    return static_cast<const std::byte*>(shared->tensor.data);
  }
  const auto bytes = static_cast<std::int64_t>(row_bytes(spec.weight, spec.k));
  if (stacked()) {
    return static_cast<const std::byte*>(tensors[0]->tensor.data) + (expert * tensor_rows + first_row) * bytes;
  }
  return static_cast<const std::byte*>(tensors[static_cast<std::size_t>(expert)]->tensor.data);
}

ExpertWeight ExpertMatrix::weight() const {
  return {.dtype = spec.weight,
          .data = data,
          .n = spec.n,
          .expert_bytes = expert_bytes(),
          .bias = bias != nullptr ? bias->data + first_row : nullptr,
          .bias_stride = tensor_rows,
          .scale = scale != nullptr ? scale->data : nullptr};
}

void ExecutionPlan::refuse_tensor(const std::string& name) const {
  if (has_tensor(name)) {
    throw Error(
        fmt::format("{}: tensor {} changes the computation and is not supported", file_->path().string(), quote(name)));
  }
}

bool ExecutionPlan::can_stack_shared(const ExpertTensorName& name) const {
  const auto found = [this](const std::string& tensor) { return file_->find_tensor(tensor); };
  const GgufTensor* own = found(name.shared + ".weight");
  const GgufTensor* others = found(name.stacked + ".weight");
  if (others == nullptr && !name.joined.empty()) {
    others = found(name.joined + ".weight");
  }
  if (own == nullptr || others == nullptr || own->tensor.dtype != others->tensor.dtype) {
    return false;
  }
  for (const std::string& tensor : {name.shared, name.stacked, name.joined}) {
    if (has_tensor(tensor + ".bias") || has_tensor(tensor + ".scale")) {
      return false;
    }
  }
  return true;
}

ExpertMatrix ExecutionPlan::find_experts(const ExpertTensorName& name, const ExpertMatmul::Spec& all) {
  ExpertMatmul::Spec wanted = all;  // of the experts that are chosen
  wanted.experts -= name.shared.empty() ? 0 : 1;
  ExpertMatrix matrix{.tensors = {}, .tensor_rows = wanted.n, .spec = wanted};
  const std::string joined = name.joined + ".weight";
  const bool is_joined = !name.joined.empty() && has_tensor(joined);
  if (is_joined) {
    matrix.tensors = {&tensor(joined, {wanted.experts, 2 * wanted.n, wanted.k})};
    matrix.tensor_rows = 2 * wanted.n;
    matrix.first_row = name.second_half ? wanted.n : 0;
  } else if (name.single.empty() || !has_tensor(name.single + ".0.weight")) {
    matrix.tensors = {&tensor(name.stacked + ".weight", {wanted.experts, wanted.n, wanted.k})};
  } else {
    for (std::int64_t e = 0; e < wanted.experts; ++e) {
      const GgufTensor& own = tensor(fmt::format("{}.{}.weight", name.single, e), {wanted.n, wanted.k});
      if (e > 0 && own.tensor.dtype != matrix.tensors[0]->tensor.dtype) {
        throw Error(fmt::format("{}: tensor {} is {}, that of expert 0 is {}", file_->path().string(), quote(own.name),
                                rocmforge::name(own.tensor.dtype), rocmforge::name(matrix.tensors[0]->tensor.dtype)));
      }
      matrix.tensors.push_back(&own);
    }
  }
  matrix.spec.weight = matrix.tensors[0]->tensor.dtype;
  find_expert_vectors(name, is_joined, matrix);
  if (!name.shared.empty()) {
    matrix.shared = &tensor(name.shared + ".weight", {wanted.n, wanted.k});
    matrix.spec.experts = all.experts;
  }
  return matrix;
}

/// The biases and scales of the weights' tensor. Those that belong to another form of the tensor are refused.
void ExecutionPlan::find_expert_vectors(const ExpertTensorName& name, bool joined, ExpertMatrix& matrix) {
  const bool one_by_one = matrix.tensors.size() > 1;
  for (const char* suffix : {".bias", ".scale"}) {
    if (joined || one_by_one) {
      refuse_tensor(name.stacked + suffix);
    }
    if (!joined) {
      refuse_tensor(name.joined + suffix);
    }
    for (std::int64_t e = 0; one_by_one && e < matrix.spec.experts; ++e) {
      refuse_tensor(fmt::format("{}.{}{}", name.single, e, suffix));
    }
  }
  const std::string& tensor = joined ? name.joined : name.stacked;
  if (name.needs_bias || (!one_by_one && has_tensor(tensor + ".bias"))) {
    matrix.bias = find_vector(tensor + ".bias", {matrix.spec.experts, matrix.tensor_rows});
    bytes_per_token_ += static_cast<std::size_t>(matrix.spec.used * matrix.spec.n) * sizeof(float);
  }
  if (one_by_one || !has_tensor(tensor + ".scale")) {
    return;
  }
  if (matrix.spec.weight != DType::nvfp4 && !name.any_scale) {
    refuse_scale(tensor);
  }
  matrix.scale = find_vector(tensor + ".scale", {matrix.spec.experts});
  bytes_per_token_ += static_cast<std::size_t>(matrix.spec.used) * sizeof(float);
  check_scales(*matrix.scale->tensor);
}

std::vector<const ExpertMatrix*> ExecutionPlan::experts(std::string_view operation,
                                                        const std::vector<ExpertTensorName>& names,
                                                        const ExpertMatmul::Spec& wanted) {
  std::vector<const ExpertMatrix*> found;
  PlannedOperation planned;
  planned.operation = operation;
  for (const ExpertTensorName& name : names) {
    ExpertMatrix matrix = find_experts(name, wanted);
    Choice<ExpertMatmul> choice = with_context(file_->path().string() + ": tensor " + quote(matrix.tensors[0]->name), [&] {
      return choose_for_weights<ExpertMatmul>(*registry_, matrix.spec, device_, {}, options_.small_weights);
    });
    matrix.kernel = choice.kernel;
    if (found.empty()) {
      planned.kernel = choice.kernel->name();
      planned.refusals = std::move(choice.refusals);
    } else if (choice.kernel != found[0]->kernel ||
               (matrix.spec.weight != found[0]->spec.weight && !choice.kernel->mixes_formats())) {
      throw Error(fmt::format("{}: tensor {} is {}, which does not run together with the format of {} here",
                              file_->path().string(), quote(matrix.tensors[0]->name), rocmforge::name(matrix.spec.weight),
                              quote(found[0]->tensors[0]->name)));
    }
    needs_scratch(matrix.kernel->workspace_bytes(matrix.spec, options_.max_batch_tokens));
    slot_order_bytes_ = std::max(slot_order_bytes_, matrix.kernel->order_bytes(matrix.spec, options_.max_batch_tokens));
    planned.spec += (found.empty() ? "" : " + ") + to_string(matrix.spec);
    planned.uses.emplace_back(KernelUse<ExpertMatmul>{matrix.spec, matrix.kernel});
    planned.weight_bytes += matrix.slot_bytes() * static_cast<std::size_t>(wanted.used);
    found.push_back(&expert_matrices_.emplace_back(std::move(matrix)));
  }
  // Each token reads its slots' inputs once and writes their outputs.
  const bool down = names.size() == 1 && !wanted.alone;
  const std::int64_t per_slot = down ? wanted.k : wanted.n;
  const std::int64_t per_token = down ? 2 * wanted.n : wanted.k;
  planned.activation_bytes = static_cast<std::size_t>(per_slot * wanted.used + per_token) * sizeof(float);
  bytes_per_token_ += planned.weight_bytes;
  line(std::move(planned));
  return found;
}

const void* ExecutionPlan::load_experts(const ExpertMatrix& matrix, WeightStore& store, ExecutionContext& context) const {
  const std::size_t packed_bytes = matrix.kernel->packed_bytes(matrix.spec);
  if (matrix.in_place()) {
    const auto skipped = static_cast<std::size_t>(matrix.first_row) * row_bytes(matrix.spec.weight, matrix.spec.k);
    return static_cast<const std::byte*>(store.view(*matrix.tensors[0])) + skipped;
  }
  std::vector<const GgufTensor*> tensors = matrix.tensors;
  if (matrix.shared != nullptr) {
    tensors.push_back(matrix.shared);
  }
  return store.assemble(tensors, matrix.bytes(), [&](std::byte* to) {
    for (std::int64_t e = 0; e < matrix.spec.experts; ++e, to += matrix.expert_bytes()) {
      if (packed_bytes > 0) {
        matrix.kernel->pack(matrix.spec, matrix.rows(e), to, context);
      } else {
        std::memcpy(to, matrix.rows(e), static_cast<std::size_t>(matrix.expert_bytes()));
      }
    }
  });
}

}  // namespace rocmforge
