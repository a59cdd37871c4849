#pragma once

#include <cstdint>
#include <string>

#include "ops/activation.h"
#include "ops/registry.h"

namespace rocmforge {

/// out[t, i] = activation(gate[t, i]) * up[t, i], or without a gate activation(up[t, i]). clamped_swiglu and none are not
/// supported; relu_squared only without a gate.
struct GatedActivation {
  static constexpr std::string_view name = "gated_activation";

  struct Spec {
    Activation activation = Activation::silu;
    std::int64_t width = 0;
    bool gated = true;
  };

  struct Args {
    const float* gate = nullptr;  ///< [tokens, width], rows `stride` apart; null when not Spec::gated
    const float* up = nullptr;    ///< [tokens, width], rows `up_stride` apart
    std::int64_t tokens = 0;
    std::int64_t stride = 0;     ///< elements between two rows of gate and of up
    float* out = nullptr;        ///< [tokens, width], dense; must not overlap gate or up
    std::int64_t up_stride = 0;  ///< of up, where it is not `stride`
  };
};

std::string to_string(const GatedActivation::Spec& spec);

}  // namespace rocmforge
