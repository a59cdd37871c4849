#include "models/parts/linear.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/error.h"
#include "models/adapters/adapters.h"

namespace rocmforge {
namespace {
constexpr std::size_t most_parts = 4;
}

Linear::Linear(std::string kind, const std::vector<Part>& parts) : kind_(std::move(kind)) {
  check(!parts.empty() && parts.size() <= most_parts, "a group of linear layers has one to four parts");
  for (const Part& part : parts) {
    check(part.weight->spec.k == parts[0].weight->spec.k, "the linear layers of a group share their input");
    auto call = std::find_if(calls_.begin(), calls_.end(),
                             [&](const Call& other) { return other[0].part.weight->kernel == part.weight->kernel; });
    if (call == calls_.end()) {
      call = calls_.emplace(calls_.end());
    }
    call->push_back({part, width_});
    width_ += part.weight->spec.n;
  }
}

std::vector<Linear::Part> Linear::parts() const {
  std::vector<Part> parts;
  for (const Call& call : calls_) {
    for (const Column& column : call) {
      parts.push_back(column.part);
    }
  }
  return parts;
}

void Linear::append_residual(Operations& operations, float* Buffers::*x, float* Buffers::*out) const {
  operations.push_back(
      {kind_, [this, x, out](const Step& step) { run(step, step.buffers.*x, step.buffers.*out, {}, true); }});
}

MatmulFusions Linear::fusions() const {
  MatmulFusions least = calls_[0][0].part.weight->kernel->fusions();
  for (const Call& call : calls_) {
    least.norm_tokens = std::min(least.norm_tokens, call[0].part.weight->kernel->fusions().norm_tokens);
  }
  const bool is_pair =
      calls_.size() == 1 && calls_[0].size() == 2 && calls_[0][0].part.weight->spec.n == calls_[0][1].part.weight->spec.n;
  return {least.norm_tokens, is_pair ? least.gate_tokens : 0, calls_.size() == 1 ? least.post_norm_tokens : 0};
}

void Linear::run(const Step& step, const float* x, float* out, const LinearFusion& fusion, bool accumulate) const {
  run_strided(step, x, calls_[0][0].part.weight->spec.k, out, fusion, accumulate);
}

void Linear::run_strided(const Step& step, const float* x, std::int64_t x_stride, float* out, const LinearFusion& fusion,
                         bool accumulate, std::int64_t out_stride) const {
  const std::int64_t stride = out_stride > 0 ? out_stride : fusion.gate ? width_ / 2 : width_;
  for (const Call& call : calls_) {
    std::array<MatmulOutput, most_parts> outputs;
    for (std::size_t i = 0; i < call.size(); ++i) {
      const auto& [part, offset] = call[i];
      const Matmul::Spec& spec = part.weight->spec;
      float* to = fusion.gate && i > 0 ? nullptr : out + offset;
      outputs[i] = {spec.weight, part.weight->data, spec.n, part.bias_data(), to, stride, accumulate, part.weight->scale};
    }
    const MatmulWeight& first = *call[0].part.weight;
    first.kernel->run({.x = x,
                       .tokens = step.tokens,
                       .k = first.spec.k,
                       .x_stride = x_stride,
                       .outputs = std::span(outputs.data(), call.size()),
                       .workspace = step.buffers.scratch,
                       .post_norm = fusion.post_norm ? &*fusion.post_norm : nullptr,
                       .norm_weight = fusion.norm_weight,
                       .norm_eps = fusion.norm_eps,
                       .gated = fusion.gate.has_value(),
                       .activation = fusion.gate.value_or(Activation::silu)},
                      *step.context);
  }
  if (step.adapters != nullptr) {
    check(!fusion.norm_weight && !fusion.gate && !fusion.post_norm, "products with adapters include no other operation");
    add_adapters(step, x, x_stride, out, stride);
  }
}

void Linear::add_adapters(const Step& step, const float* x, std::int64_t x_stride, float* out, std::int64_t stride) const {
  for (const Call& call : calls_) {
    for (const Column& column : call) {
      step.adapters->add(step, *column.part.weight, {x, x_stride, out + column.offset, stride});
    }
  }
}

}  // namespace rocmforge
