#include "models/parts/router.h"

namespace rocmforge {

void ExpertRouter::append(Operations& operations, float* Buffers::*x) const {
  if (norm) {
    operations.push_back({std::string(norm->kind()), [this, x](const Step& step) {
                            if (!in_one(step)) {
                              norm->run(step.tokens, step.buffers.*x, step.buffers.normed, step);
                            }
                          }});
  }
  operations.push_back({linear.kind(), [this, x](const Step& step) {
                          if (in_one(step)) {
                            route_rows(step, step.buffers.*x);
                          } else {
                            linear.run(step, step.buffers.normed, step.buffers.projected);
                          }
                        }});
  operations.push_back({std::string(RouteTokens::name), [this](const Step& step) {
                          if (!in_one(step)) {
                            choose(step);
                          }
                        }});
}

void ExpertRouter::route_rows(const Step& step, const float* x) const {
  rows->operation.run(
      {.x = x,
       .norm = norm->weight->data,
       .router = static_cast<const float*>(rows->router.weight->data),
       .router_bias = rows->router.bias_data(),
       .shared_gates = rows->shared_gates != nullptr ? static_cast<const float*>(rows->shared_gates->data) : nullptr,
       .tokens = step.tokens,
       .bias = choice_bias != nullptr ? choice_bias->data : nullptr,
       .normed = step.buffers.normed,
       .ids = step.buffers.experts,
       .weights = step.buffers.expert_weights,
       .workspace = step.buffers.scratch,
       .state = step.buffers.route_state},
      step);
}

void ExpertRouter::choose(const Step& step) const {
  choice.run({.logits = step.buffers.projected,
              .tokens = step.tokens,
              .bias = choice_bias != nullptr ? choice_bias->data : nullptr,
              .ids = step.buffers.experts,
              .weights = step.buffers.expert_weights},
             step);
}

}  // namespace rocmforge
