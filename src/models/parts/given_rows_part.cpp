#include "models/parts/given_rows_part.h"

#include <string>

namespace rocmforge {

void GivenRowsPart::append(Operations& operations) const {
  operations.push_back({std::string(OverwriteRows::name), [this](const Step& step) {
                          const StepArrays& arrays = *step.arrays;
                          if (arrays.num_overwritten > 0) {
                            overwrite_.run({.x = arrays.given.data + slice_ * overwrite_.spec.dim,
                                            .x_stride = arrays.given.stride,
                                            .from = arrays.given_rows,
                                            .ids = arrays.overwritten_rows,
                                            .count = arrays.num_overwritten,
                                            .out = step.buffers.hidden,
                                            .add = slice_ > 0},
                                           step);
                          }
                        }});
}

}  // namespace rocmforge
