#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "ops/kv_layout.h"
#include "ops/registry.h"
#include "ops/state_slots.h"

namespace rocmforge {

/// The gated delta rule (Yang, Kautz and Hatamizadeh 2024). Each value head has a state S [value_dim, key_dim] and a key
/// head with q and k; with a = sigmoid(beta) and g = rate * softplus(alpha + step_bias), row after row:
///   q = q / sqrt(|q|^2 + 1e-6) / sqrt(key_dim);  k = k / sqrt(|k|^2 + 1e-6)
///   S = e^g S;  S = S + a (v - S k) k^T;  out = S q
/// or with decays of keys (Kimi Delta Attention, 2025) an alpha, a step_bias and so a g for each column of S. These may have
/// a floor: g = decay_floor * sigmoid(rate * (alpha + step_bias)).
/// S is zeros before the sequence and stays in the slot between steps.
struct GatedDeltaNet {
  static constexpr std::string_view name = "gated_delta_net";
  static constexpr float norm_eps = 1e-6f;

  struct Spec {
    std::int32_t key_heads = 0;
    std::int32_t value_heads = 0;  ///< a multiple of key_heads
    std::int32_t key_dim = 0;
    std::int32_t value_dim = 0;
    /// The key head of value head h: h % key_heads when tiled, otherwise h / (value_heads / key_heads).
    bool tiled = false;
    bool decays_of_keys = false;
    float decay_floor = 0.0f;  ///< below 0 with decays of keys; 0: none

    [[nodiscard]] std::int64_t state_elems() const { return std::int64_t{value_heads} * value_dim * key_dim; }
    [[nodiscard]] std::int64_t keys() const { return std::int64_t{key_heads} * key_dim; }        ///< of a row, and queries
    [[nodiscard]] std::int64_t values() const { return std::int64_t{value_heads} * value_dim; }  ///< of a row
    [[nodiscard]] std::int64_t input_width() const { return 2 * keys() + values(); }
    /// Elements of alpha and of step_bias for each value head.
    [[nodiscard]] std::int64_t gates_of_head() const { return decays_of_keys ? key_dim : 1; }
    [[nodiscard]] std::int32_t key_head(std::int32_t value_head) const {
      return tiled ? value_head % key_heads : value_head / (value_heads / key_heads);
    }
  };

  struct Args {
    const float* qkv = nullptr;  ///< [tokens, input_width()]: q of all key heads, k, v of all value heads
    std::int64_t qkv_stride = 0;
    const float* beta = nullptr;   ///< [tokens, value_heads], rows gate_stride apart
    const float* alpha = nullptr;  ///< [tokens, value_heads, gates_of_head()], rows gate_stride apart
    std::int64_t gate_stride = 0;
    const float* rate = nullptr;       ///< [value_heads], at most 0; with a floor at least 0
    const float* step_bias = nullptr;  ///< [value_heads, gates_of_head()]
    StateView states;                  ///< f32 [value_heads, value_dim, key_dim] in each slot
    RaggedBatch batch;                 ///< its sequences, rows and slots; positions and pages are not read
    float* out = nullptr;              ///< [tokens, values()], rows out_stride apart, nothing that is read
    std::int64_t out_stride = 0;
    void* workspace = nullptr;  ///< at least OpKernel::workspace_bytes, 256-byte aligned
  };
};

std::string to_string(const GatedDeltaNet::Spec& spec);

}  // namespace rocmforge
