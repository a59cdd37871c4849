#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "ops/registry.h"

namespace rocmforge {

/// Gates a mixer's output: out[t, h, i] = n(x[t, h])[i] * f(gate[t, h, i]), where n is an RMSNorm of each head or the
/// identity.
struct OutputGate {
  static constexpr std::string_view name = "output_gate";

  enum class Gate : std::int32_t { sigmoid, silu };

  struct Spec {
    std::int32_t heads = 0;
    std::int32_t dim = 0;  ///< of a head
    Gate gate = Gate::sigmoid;
    bool norm = false;
    float eps = 1e-5f;

    [[nodiscard]] std::int64_t width() const { return std::int64_t{heads} * dim; }
  };

  struct Args {
    const float* x = nullptr;  ///< [tokens, heads, dim], rows x_stride apart
    std::int64_t x_stride = 0;
    const float* gate = nullptr;  ///< likewise, gate_stride apart
    std::int64_t gate_stride = 0;
    const float* weight = nullptr;  ///< [dim], of the norm; null without
    std::int64_t tokens = 0;
    float* out = nullptr;  ///< [tokens, heads, dim], dense; may be x when that is dense
  };
};

std::string to_string(const OutputGate::Spec& spec);

}  // namespace rocmforge
