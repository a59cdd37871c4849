#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "ops/kv_layout.h"
#include "ops/registry.h"
#include "ops/state_slots.h"

namespace rocmforge {

/// The scan of Mamba (Gu and Dao 2023). For each channel c, row after row:
///   step = softplus(dt[c])
///   S[n] = exp(step * a[c, n]) * S[n] + step * x[c] * B[n]
///   out  = (sum over n of S[n] * C[n] + d[c] * x[c]) * silu(z[c])
/// S is [state_size]; before the sequence it is zeros.
struct SelectiveScan {
  static constexpr std::string_view name = "selective_scan";

  struct Spec {
    std::int64_t channels = 0;
    std::int64_t state_size = 0;

    [[nodiscard]] std::int64_t state_elems() const { return channels * state_size; }
  };

  struct Args {
    const float* x = nullptr;   ///< [tokens, channels], dense
    const float* z = nullptr;   ///< [tokens, channels], rows `stride` apart
    const float* dt = nullptr;  ///< likewise
    std::int64_t stride = 0;    ///< floats
    const float* b = nullptr;   ///< [tokens, state_size], rows `bc_stride` apart
    const float* c = nullptr;   ///< likewise
    std::int64_t bc_stride = 0;
    const float* a = nullptr;  ///< [channels, state_size], below 0
    const float* d = nullptr;  ///< [channels]
    StateView states;          ///< f32 [channels, state_size] in each slot
    RaggedBatch batch;         ///< its sequences, rows and slots; positions and pages are not read
    float* out = nullptr;      ///< [tokens, channels], no input
  };
};

std::string to_string(const SelectiveScan::Spec& spec);

}  // namespace rocmforge
