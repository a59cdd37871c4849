#include <algorithm>

#include "models/plan/execution_plan.h"

namespace rocmforge {

float* ResidualSum::before(const Step& step) const {
  return first != nullptr && first->joined(step) ? step.buffers.sums : step.buffers.hidden;
}

float* ResidualSum::after(const Step& step) const {
  return joined(step) && first == nullptr ? step.buffers.sums : step.buffers.hidden;
}

MatmulPostNorm ResidualSum::post_norm(const Step& step) const {
  const RmsNorm::Spec& spec = std::get<Resolved<RmsNorm>>(norm.operation).spec;
  return {.y = input(step),
          .y_stride = spec.dim,
          .weight = norm.weight->data,
          .eps = spec.eps,
          .factor = factor,
          .scale = scale,
          .out = after(step),
          .out_stride = spec.dim};
}

void ResidualSum::append(Operations& operations) const {
  operations.push_back({std::string(norm.kind()), [this](const Step& step) {
                          if (!joined(step)) {
                            norm.run_residual(step.tokens, input(step), before(step), factor, scale, after(step), step);
                          }
                        }});
}

void ExecutionPlan::join(ResidualSum& sum, FusedLinear& next) {
  std::int64_t tokens = next.fusions.post_norm_tokens;
  if (next.norm) {  // a separate norm would overwrite y
    tokens = std::min(tokens, next.fusions.norm_tokens);
  }
  if (sum.first != nullptr) {
    tokens = std::min(tokens, sum.first->joined_tokens);
  }
  if (tokens == 0) {
    return;
  }
  sum.joined_tokens = tokens;
  next.sum = &sum;
  joined_tokens_ = std::max(joined_tokens_, tokens);

  const std::string spec = to_string(std::get<Resolved<RmsNorm>>(sum.norm.operation).spec);
  const auto planned = std::ranges::find_if(operations_, [&](const PlannedOperation& line) {
    return line.operation == RmsNorm::name && line.spec == spec && line.part_of.empty();
  });
  check(planned != operations_.end(), "the norm of a sum is in the plan");
  PlannedOperation part = *planned;
  part.times = 1;
  part.part_of = next.linear.kind();
  part.part_tokens = tokens;
  part.activation_bytes = 0;
  if (!decode_bytes_ && --planned->times == 0) {
    operations_.erase(planned);
  }
  line(std::move(part));
}

}  // namespace rocmforge
