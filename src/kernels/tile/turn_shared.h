#pragma once

#include <cstdint>

namespace rocmforge::gpu {

/// The cosine and sine of a pair's angle.
struct Turn {
  float cosine;
  float sine;
};

/// The dynamic shared memory of a work-group that turns rows: the turns of all pairs, then floats (floats_behind() in
/// turn.h).
constexpr std::int64_t turn_shared_bytes(std::int64_t pairs, std::int64_t floats) {
  return pairs * std::int64_t{sizeof(Turn)} + floats * std::int64_t{sizeof(float)};
}

}  // namespace rocmforge::gpu
