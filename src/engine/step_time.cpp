#include "engine/step_time.h"

#include <algorithm>
#include <cstdint>

namespace rocmforge {

std::chrono::milliseconds step_time_bound(const StepWork& work) {
  const double flops = 2.0 * work.parameters * work.tokens + 4.0 * work.pairs * work.width + work.image_flops;
  const double seconds = 30.0 + flops / (work.on_gpu ? 1e11 : 1e9) + work.bytes_to_read / 2e7;
  constexpr double longest = 1e6;
  return std::chrono::milliseconds(static_cast<std::int64_t>(std::min(seconds, longest) * 1000.0));
}

}  // namespace rocmforge
