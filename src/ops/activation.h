#pragma once

#include <cstdint>

namespace rocmforge {

/// The function between the products of gate and up and the product of down. silu, gelu_tanh (GELU with a tanh in place of
/// its erf), gelu and gelu_quick, x * sigmoid(1.702 x) (both for dense parts only) are applied to the gate, which multiplies
/// up. clamped_swiglu (gpt-oss, experts only) is a function of both, with a limit L and a slope s:
///   g = min(gate, L);  g * sigmoid(s * g) * (clamp(up, -L, L) + 1)
/// relu_squared, max(up, 0)^2, is used without a gate. none, up itself, is for experts without a gate.
enum class Activation : std::int32_t { silu, gelu_tanh, clamped_swiglu, relu_squared, gelu, gelu_quick, none };

inline constexpr float gelu_quick_slope = 1.702f;
inline constexpr float clamped_swiglu_limit = 7.0f;
inline constexpr float clamped_swiglu_slope = 1.702f;

}  // namespace rocmforge
