#pragma once

#include <cstdint>

namespace rocmforge {

// Arithmetic for host and device code.

/// The factor that turns a natural exponential into the power of two that hardware computes: e^x = 2^(x log2_e).
inline constexpr float log2_e = 1.44269504088896340736f;

/// `value` divided by `by`, rounded up. Neither may be negative.
constexpr std::int64_t divide_up(std::int64_t value, std::int64_t by) { return (value + by - 1) / by; }

/// The smallest multiple of `to` that is not below `value`.
constexpr std::int64_t round_up(std::int64_t value, std::int64_t to) { return divide_up(value, to) * to; }

}  // namespace rocmforge
