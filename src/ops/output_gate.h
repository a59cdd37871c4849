#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "ops/registry.h"

namespace rocmforge {

/// Gates a mixer's output: out[t, h, i] = n(x[t, h])[i] * f(gate[t, h, i]), or f(gate[t, h]) where a head has one gate. n is
/// an RMSNorm of each head or the identity.
struct OutputGate {
  static constexpr std::string_view name = "output_gate";

  enum class Gate : std::int32_t {
    sigmoid,
    silu,
    softplus,  ///< ln(1 + e^x)
    plain,     ///< x itself
  };

  struct Spec {
    std::int32_t heads = 0;
    std::int32_t dim = 0;  ///< of a head
    Gate gate = Gate::sigmoid;
    bool norm = false;
    float eps = 1e-5f;
    bool of_heads = false;  ///< one gate for each head

    [[nodiscard]] std::int64_t width() const { return std::int64_t{heads} * dim; }
    /// Gates of a token.
    [[nodiscard]] std::int64_t gates() const { return of_heads ? heads : width(); }
  };

  struct Args {
    const float* x = nullptr;  ///< [tokens, heads, dim], rows x_stride apart
    std::int64_t x_stride = 0;
    const float* gate = nullptr;  ///< [tokens, heads, dim] or [tokens, heads], rows gate_stride apart
    std::int64_t gate_stride = 0;
    const float* weight = nullptr;  ///< [dim], of the norm; null without
    std::int64_t tokens = 0;
    float* out = nullptr;  ///< [tokens, heads, dim], dense; may be x when that is dense
  };
};

std::string to_string(const OutputGate::Spec& spec);

}  // namespace rocmforge
