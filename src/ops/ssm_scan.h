#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "ops/kv_layout.h"
#include "ops/registry.h"
#include "ops/state_slots.h"

namespace rocmforge {

/// The scan of Mamba-2 (Dao and Gu 2024). For each head h of group g = h / (heads / groups), row after row:
///   step = softplus(dt[h] + dt_bias[h])
///   S    = exp(step * a[h]) * S + step * x[h] (outer product) B[g]
///   out  = (S C[g] + d[h] * x[h]) * silu(z[h])
/// S is [head_dim, state_size]; before the sequence it is zeros.
struct SsmScan {
  static constexpr std::string_view name = "ssm_scan";

  struct Spec {
    std::int64_t heads = 0;
    std::int64_t head_dim = 0;
    std::int64_t state_size = 0;
    std::int64_t groups = 1;  ///< divides heads

    [[nodiscard]] std::int64_t inner() const { return heads * head_dim; }
    [[nodiscard]] std::int64_t input_width() const { return inner() + 2 * groups * state_size; }  ///< of a row of x
    [[nodiscard]] std::int64_t state_elems() const { return inner() * state_size; }
  };

  struct Args {
    const float* x = nullptr;        ///< [tokens, input_width()]: x [heads, head_dim], B and C [groups, state_size]
    const float* z = nullptr;        ///< [tokens, inner()], rows `stride` apart
    const float* dt = nullptr;       ///< [tokens, heads], rows `stride` apart
    std::int64_t stride = 0;         ///< floats
    const float* a = nullptr;        ///< [heads], below 0
    const float* d = nullptr;        ///< [heads]
    const float* dt_bias = nullptr;  ///< [heads]
    StateView states;                ///< f32 [heads, head_dim, state_size] in each slot
    RaggedBatch batch;               ///< its sequences, rows and slots; positions and pages are not read
    float* out = nullptr;            ///< [tokens, inner()], neither x nor z nor dt
    void* workspace = nullptr;       ///< at least OpKernel::workspace_bytes, 256-byte aligned
  };
};

std::string to_string(const SsmScan::Spec& spec);

}  // namespace rocmforge
