#pragma once

#include <memory>

#include "models/execution_plan.h"
#include "models/layer.h"
#include "models/model_config.h"
#include "models/step/step_attention.h"

namespace rocmforge {

/// The pre-norm decoder block of Llama and its relatives:
///   h += Wo attention(rope(Wq x), rope(Wk x), Wv x)   with x = rms_norm(h)
///   h += Wdown (activation(Wgate x) * Wup x)          with x = rms_norm(h)
/// Biases of Q, K and V (Qwen2) and a norm over each head of Q and K (Qwen3) come from the configuration.
class DecoderLayer final : public Layer {
 public:
  DecoderLayer(ExecutionPlan& plan, const ModelConfig& config, int index);

 private:
  /// Rotates Q and K and appends K and V to the cache.
  void append_keys(const Step& step) const;
  void attend_to_keys(const Step& step) const;

  std::int64_t q_dim_;
  std::int64_t kv_dim_;
  FusedLinear qkv_;  ///< with the norm before it
  Resolved<RopeAppend> rope_append_;
  const WeightVector* q_norm_ = nullptr;             ///< [head_dim] or null
  const WeightVector* k_norm_ = nullptr;             ///< [head_dim] or null
  const WeightVector* inverse_frequency_ = nullptr;  ///< [n_rot / 2], the configuration's; null without rotation
  StepAttention attention_;
  Linear attention_output_;
  FusedLinear gate_up_;  ///< with the norm before it and the activation after it
  Linear down_;
};

/// `config` must outlive the layer.
std::unique_ptr<Layer> make_decoder_layer(ExecutionPlan& plan, const ModelConfig& config, int index);

}  // namespace rocmforge
