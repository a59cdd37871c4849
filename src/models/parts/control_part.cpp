#include "models/parts/control_part.h"

#include <string>

namespace rocmforge {

ControlPart::ControlPart(Planner& planner, const ControlVectors& vectors, int layer)
    : add_(planner.resolve<OverwriteRows>({std::ssize(vectors.behind(layer))})),
      direction_(planner.weights().constants(vectors.behind(layer))),
      rows_(planner.weights().constants(vectors.rows())),
      zeros_(planner.weights().constants(vectors.zeros())) {}

void ControlPart::append(Operations& operations) const {
  operations.push_back({std::string(OverwriteRows::name), [this](const Step& step) {
                          add_.run({.x = direction_->data,
                                    .x_stride = add_.spec.dim,
                                    .from = zeros_->data,
                                    .ids = rows_->data,
                                    .count = step.tokens,
                                    .out = step.buffers.hidden,
                                    .add = true},
                                   step);
                        }});
}

}  // namespace rocmforge
