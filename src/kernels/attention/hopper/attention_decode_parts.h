#pragma once

// Weighted sums of V over parts of the keys, and how they are added up.

#include "kernels/tile/hopper/wgmma.h"

namespace rocmforge::hopper {

inline constexpr float infinity = __builtin_huge_valf();

/// An integer in units of log2, at least the greatest score, a sum of weights relative to it, and four weighted sums.
struct Part {
  float4 sums{0.0f, 0.0f, 0.0f, 0.0f};
  float maximum = -infinity;
  float weight = 0.0f;
};

/// 2^exponent for an integer that is not positive; 0 below 2^-126. Exact: maxima are integers, so rescaling sums from one
/// maximum to another does not round, and the place where parts are added up does not matter.
__device__ inline float power_of_two(float exponent) {
  const int biased = max(__float2int_rn(exponent), -127) + 127;
  return __int_as_float(biased << 23);
}
__device__ inline float4 scaled(const float4& sums, float factor) {
  return float4{sums.x * factor, sums.y * factor, sums.z * factor, sums.w * factor};
}

/// Adds `count` parts in their order to `to`, after the parts already there; `part(i)` gives the i-th.
template <int count, class Parts>
__device__ inline void add_parts(Part& to, const Parts& part) {
  Part parts[count];
  float maximum = to.maximum;
#pragma unroll
  for (int i = 0; i < count; ++i) {
    parts[i] = part(i);
    maximum = fmaxf(maximum, parts[i].maximum);
  }
  const float keep = power_of_two(to.maximum - maximum);
  to.sums = scaled(to.sums, keep);
  to.weight *= keep;
  to.maximum = maximum;
#pragma unroll
  for (int i = 0; i < count; ++i) {
    const float take = power_of_two(parts[i].maximum - maximum);
    to.weight = __fmaf_rn(parts[i].weight, take, to.weight);
    to.sums.x = __fmaf_rn(parts[i].sums.x, take, to.sums.x);
    to.sums.y = __fmaf_rn(parts[i].sums.y, take, to.sums.y);
    to.sums.z = __fmaf_rn(parts[i].sums.z, take, to.sums.z);
    to.sums.w = __fmaf_rn(parts[i].sums.w, take, to.sums.w);
  }
}

}  // namespace rocmforge::hopper
