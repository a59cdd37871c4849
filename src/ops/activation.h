#pragma once

#include <cstdint>

namespace rocmforge {

/// What stands between gate and up on one side and down on the other. silu, gelu_tanh (GELU with a tanh in place of its erf)
/// and gelu (dense parts alone) are applied to the gate, which multiplies up; clamped_swiglu (gpt-oss, experts alone) is of
/// both, with a limit L and a slope s:
///   g = min(gate, L);  g * sigmoid(s * g) * (clamp(up, -L, L) + 1)
/// relu_squared, max(up, 0)^2, stands where there is no gate.
enum class Activation : std::int32_t { silu, gelu_tanh, clamped_swiglu, relu_squared, gelu };

inline constexpr float clamped_swiglu_limit = 7.0f;
inline constexpr float clamped_swiglu_slope = 1.702f;

}  // namespace rocmforge
