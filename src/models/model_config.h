#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ops/elementwise.h"
#include "ops/rope.h"
#include "weights/gguf_file.h"

namespace rocmforge {

/// The numbers of a decoder-only transformer, read from a file's metadata: defaults first, then the file's values, then
/// checked.
struct ModelConfig {
  std::string architecture;  ///< general.architecture
  std::string name;          ///< general.name, "" when absent
  std::int32_t layers = 0;
  std::int32_t hidden = 0;
  std::int32_t ffn = 0;
  std::int32_t q_heads = 0;
  std::int32_t kv_heads = 0;
  std::int32_t head_dim = 0;
  std::int32_t vocab = 0;
  std::int32_t context_length = 0;  ///< the model was trained for this many positions
  std::int32_t sliding_window = 0;  ///< 0 for none
  float norm_eps = 1e-5f;
  Activation activation = Activation::silu;

  RopeKind rope_kind = RopeKind::adjacent;
  std::int32_t n_rot = 0;
  float rope_magnitude = 1.0f;
  std::vector<float> inverse_frequency;  ///< [n_rot / 2]: base, scaling (linear, YaRN) and frequency factors applied

  bool qkv_bias = false;
  bool head_norm = false;

  [[nodiscard]] std::int64_t q_dim() const { return std::int64_t{q_heads} * head_dim; }
  [[nodiscard]] std::int64_t kv_dim() const { return std::int64_t{kv_heads} * head_dim; }

  /// Throws Error naming the key for a missing or impossible value, or the architecture with the list of those supported.
  static ModelConfig from_gguf(const GgufFile& file);
};

/// Architectures that can be loaded, for messages and `--help`.
std::vector<std::string> supported_architectures();

}  // namespace rocmforge
