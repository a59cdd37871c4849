#pragma once

#include <cstdint>
#include <string>

#include "models/parts/fused_linear.h"
#include "models/step/communicator.h"

namespace rocmforge {

/// The sum of Buffers::partial [tokens, width] over the ranks that share a layer: each of them has computed a part.
struct RankSum {
  Resolved<AllReduce> operation;
  std::int64_t width = 0;

  /// To `out`, or added to it.
  void run(const Step& step, float* out, bool add) const {
    step.communicator->all_reduce(operation.spec, *operation.kernel,
                                  {.part = step.buffers.partial, .count = step.tokens * width, .out = out, .add = add},
                                  *step.context);
  }
  /// As run(), as an operation; `this` must outlive `operations`.
  void append(Operations& operations, float* Buffers::*out, bool add) const {
    operations.push_back(
        {std::string(AllReduce::name), [this, out, add](const Step& step) { run(step, step.buffers.*out, add); }});
  }
};

}  // namespace rocmforge
