#pragma once

#include <cstdint>
#include <string>

#include "ops/kv_layout.h"
#include "ops/registry.h"

namespace rocmforge {

/// Which elements of a head are rotated as a pair.
enum class RopeKind {
  none,
  adjacent,  ///< (2p, 2p + 1): `llama` files
  half,      ///< (p, p + n_rot / 2): qwen2, qwen3
};

/// Per token: optional RMSNorm over each head of Q and K, before or after it the rotation of Q (in place) and K, an optional
/// RMSNorm without weights over each head of V, and the append of K and V to the token's cell of the sequence's pages. Pair
/// p at position `pos` is rotated by pos * inverse_frequency[p]; cos and sin are multiplied by `magnitude`. In multimodal
/// RoPE (Qwen2-VL 2024, section 2.1) a token has a position on each of several axes, and a pair turns by that on its own
/// axis.
struct RopeAppend {
  static constexpr std::string_view name = "rope_append";

  struct Spec {
    RopeKind kind = RopeKind::adjacent;
    std::int32_t q_heads = 0;
    std::int32_t head_dim = 0;
    std::int32_t n_rot = 0;        ///< rotated elements of a head, even; the rest pass through
    bool head_norm = false;        ///< Q and K are normalised per head, before the rotation (qwen3)
    bool norm_after_turn = false;  ///< head_norm applies after the rotation (hunyuan-dense)
    bool value_norm = false;       ///< heads of V are normalised, without weights (gemma4)
    bool append = true;            ///< false: only Q is rotated; the pages hold K and V of another layer
    float norm_eps = 1e-6f;
    float magnitude = 1.0f;  ///< YaRN's mscale
    /// At the end Q is multiplied by 1 + temperature_scale * ln(1 + floor((position + temperature_ahead) /
    /// temperature_length)), of the first axis; 0: it is not.
    float temperature_scale = 0.0f;
    std::int32_t temperature_length = 0;  ///< positions
    std::int32_t temperature_ahead = 0;   ///< likewise, 0 or 1
    KvLayout layout;
  };

  struct Args {
    float* q = nullptr;        ///< [tokens, q_heads * head_dim], rows `stride` apart, rotated in place
    const float* k = nullptr;  ///< [tokens, kv_heads * head_dim], rows `stride` apart; not read without Spec::append
    const float* v = nullptr;  ///< likewise; may be k
    std::int64_t stride = 0;
    const float* q_norm = nullptr;             ///< [head_dim] when Spec::head_norm
    const float* k_norm = nullptr;             ///< [head_dim] when Spec::head_norm and append
    const float* inverse_frequency = nullptr;  ///< [n_rot / 2]
    KvCacheView cache;
    RaggedBatch batch;
    /// [n_rot / 2], the axis of each pair, below batch.position_axes; null: 0. Read only where a token has several
    /// positions.
    const std::int32_t* axes = nullptr;
  };
};

std::string to_string(const RopeAppend::Spec& spec);

}  // namespace rocmforge
