#pragma once

#include <cstdint>

namespace rocmforge {

// Arithmetic of host and device code.

/// Turns a natural exponential into the power of two that hardware computes: e^x = 2^(x log2_e).
inline constexpr float log2_e = 1.44269504088896340736f;

/// How many of `by` hold `value`; neither is negative.
constexpr std::int64_t divide_up(std::int64_t value, std::int64_t by) { return (value + by - 1) / by; }

/// The least multiple of `to` that is not below `value`.
constexpr std::int64_t round_up(std::int64_t value, std::int64_t to) { return divide_up(value, to) * to; }

}  // namespace rocmforge
