#pragma once

// The angles of rotary positions.

#include "kernels/tile/device_code.h"
#include "kernels/tile/turn_shared.h"

namespace rocmforge::gpu {

/// The floats of turn_shared_bytes().
__device__ inline float* floats_behind(Turn* turns, std::int32_t pairs) { return reinterpret_cast<float*>(turns + pairs); }

/// Cosine and sine of position * inverse_frequency, a product in float as the models were trained with; the rest is in
/// double, so that both are right at any position. Reduction and series are those of the CPU's kernel.
__device__ inline Turn turn_of(float position, float inverse_frequency, float magnitude) {
  const double angle = static_cast<double>(position * inverse_frequency);
  // angle = quarter * pi / 2 + r, |r| <= pi / 4. The first part of pi / 2 has 33 bits: products with 20-bit quarters are
  // exact.
  const double quarter = rint(angle * 0.63661977236758134308);
  const double r = (angle - quarter * 1.57079632673412561417e+00) - quarter * 6.07710050650619224932e-11;
  const double z = r * r;
  const double s = r + r * z * (-1.0 / 6 + z * (1.0 / 120 + z * (-1.0 / 5040 + z * (1.0 / 362880 + z * (-1.0 / 39916800)))));
  const double c =
      1.0 +
      z * (-0.5 + z * (1.0 / 24 + z * (-1.0 / 720 + z * (1.0 / 40320 + z * (-1.0 / 3628800 + z * (1.0 / 479001600))))));
  const int turns = static_cast<int>(quarter);
  const bool odd = (turns & 1) != 0;
  const double cosine = odd ? s : c;
  const double sine = odd ? c : s;
  return {static_cast<float>((((turns + 1) & 2) != 0 ? -cosine : cosine) * static_cast<double>(magnitude)),
          static_cast<float>(((turns & 2) != 0 ? -sine : sine) * static_cast<double>(magnitude))};
}

}  // namespace rocmforge::gpu
