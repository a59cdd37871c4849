#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "ops/kv_layout.h"
#include "ops/registry.h"
#include "ops/state_slots.h"

namespace rocmforge {

/// A short convolution over the positions of each channel, between two gates. With a row of x as [b | c | x], and u = b * x:
///   out[t] = c[t] * sum over j of weight[:, j] * u[t - (taps - 1) + j]
/// Positions before the step come from the state, which holds the last taps - 1 rows of u, the oldest first; before the
/// sequence they are zeros.
struct ShortConv {
  static constexpr std::string_view name = "short_conv";

  struct Spec {
    std::int64_t channels = 0;
    std::int64_t taps = 0;  ///< at least 2

    [[nodiscard]] std::int64_t state_elems() const { return (taps - 1) * channels; }
  };

  struct Args {
    const float* x = nullptr;       ///< [tokens, 3, channels]
    const float* weight = nullptr;  ///< [channels, taps]
    StateView states;               ///< f32 [taps - 1, channels] in each slot
    RaggedBatch batch;              ///< its sequences, rows and slots; positions and pages are not read
    float* out = nullptr;           ///< [tokens, channels], not x
  };
};

std::string to_string(const ShortConv::Spec& spec);

}  // namespace rocmforge
