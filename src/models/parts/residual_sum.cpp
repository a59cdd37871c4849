#include "models/parts/fused_linear.h"

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

}  // namespace rocmforge
