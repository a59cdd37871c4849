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
    step.communicator->all_reduce(operation.spec, *operation.kernel, sum_of(step, out, add), *step.context);
  }
  /// As run(), as an operation; `this` must outlive `operations`. Of a half of a step the sum is begun.
  void append(Operations& operations, float* Buffers::*out, bool add) const {
    const auto run_or_begin = [this, out, add](const Step& step) {
      if (step.half) {
        step.communicator->begin_sum(*step.half, {operation.spec, operation.kernel, sum_of(step, step.buffers.*out, add)});
      } else {
        run(step, step.buffers.*out, add);
      }
    };
    operations.push_back({.kind = std::string(AllReduce::name), .run = run_or_begin, .sums = true});
  }

 private:
  [[nodiscard]] Communicator::Sum sum_of(const Step& step, float* out, bool add) const {
    return {.part = step.buffers.partial, .count = step.tokens * width, .out = out, .add = add};
  }
};

}  // namespace rocmforge
