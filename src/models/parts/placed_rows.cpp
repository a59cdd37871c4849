#include "models/parts/placed_rows.h"

#include <string>

namespace rocmforge {

PlacedRows::PlacedRows(Planner& planner, std::int64_t dim, std::int32_t place, std::int32_t places)
    : copy_(planner.resolve<OverwriteRows>({dim})) {
  for (std::int32_t row = 0; row < planner.most_tokens(); ++row) {
    own_.push_back(row);
    wide_.push_back(row * places + place);
  }
  from_ = planner.weights().constants(own_);
  to_ = planner.weights().constants(wide_);
}

void PlacedRows::append(Operations& operations, float* Buffers::*from, float* Buffers::*to) const {
  operations.push_back({std::string(OverwriteRows::name), [this, from, to](const Step& step) {
                          copy_.run({.x = step.buffers.*from,
                                     .x_stride = copy_.spec.dim,
                                     .from = from_->data,
                                     .ids = to_->data,
                                     .count = step.tokens,
                                     .out = step.buffers.*to},
                                    step);
                        }});
}

}  // namespace rocmforge
