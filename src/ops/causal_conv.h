#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "ops/kv_layout.h"
#include "ops/registry.h"
#include "ops/state_slots.h"

namespace rocmforge {

/// A causal convolution over the positions of each channel:
///   out[t] = f(bias + sum over j of weight[:, j] * u[t - (taps - 1) + j])
/// f is the identity or SiLU, and u is x. With gates a row of x is [b | c | x], u = b * x, and the output of f is multiplied
/// by c. Positions before the step come from the state, which holds the last taps - 1 rows of u, the oldest first; before
/// the sequence they are zeros.
struct CausalConv {
  static constexpr std::string_view name = "causal_conv";

  struct Spec {
    std::int64_t channels = 0;
    std::int64_t taps = 0;  ///< at least 2
    bool gates = false;
    bool silu = false;

    [[nodiscard]] std::int64_t state_elems() const { return (taps - 1) * channels; }
    [[nodiscard]] std::int64_t input_width() const { return (gates ? 3 : 1) * channels; }  ///< of a row of x
  };

  struct Args {
    const float* x = nullptr;       ///< [tokens, input_width()], rows `x_stride` apart
    std::int64_t x_stride = 0;      ///< floats
    const float* weight = nullptr;  ///< [channels, taps]
    const float* bias = nullptr;    ///< [channels], or null
    StateView states;               ///< f32 [taps - 1, channels] in each slot
    RaggedBatch batch;              ///< its sequences, rows and slots; positions and pages are not read
    float* out = nullptr;           ///< [tokens, channels], not x
  };
};

std::string to_string(const CausalConv::Spec& spec);

}  // namespace rocmforge
