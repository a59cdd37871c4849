#include "models/decoder_layer.h"

#include <fmt/format.h>

namespace rocmforge {

DecoderLayer::DecoderLayer(ExecutionPlan& plan, const ModelConfig& config, int index)
    : q_dim_(config.q_dim()), kv_dim_(config.kv_dim()) {
  const auto name = [index](std::string_view part) { return fmt::format("blk.{}.{}", index, part); };

  qkv_ = plan.fused_linear(name("attn_qkv"), name("attn_norm.weight"), config.norm_eps,
                           {{name("attn_q"), config.q_dim(), config.qkv_bias},
                            {name("attn_k"), config.kv_dim(), config.qkv_bias},
                            {name("attn_v"), config.kv_dim(), config.qkv_bias}},
                           config.hidden);
  if (config.head_norm) {
    q_norm_ = plan.vector(name("attn_q_norm.weight"), config.head_dim);
    k_norm_ = plan.vector(name("attn_k_norm.weight"), config.head_dim);
  }
  if (!config.inverse_frequency.empty()) {
    inverse_frequency_ = plan.constants(config.inverse_frequency);
  }
  attention_ = plan.attention({.q_heads = config.q_heads,
                               .kv_heads = config.kv_heads,
                               .head_dim = config.head_dim,
                               .kv_dtype = plan.kv_dtype(),
                               .window = config.sliding_window});
  rope_append_ = plan.resolve<RopeAppend>({.kind = config.rope_kind,
                                           .q_heads = config.q_heads,
                                           .head_dim = config.head_dim,
                                           .n_rot = config.n_rot,
                                           .head_norm = config.head_norm,
                                           .norm_eps = config.norm_eps,
                                           .magnitude = config.rope_magnitude,
                                           .layout = plan.kv_layout()});
  attention_output_ = plan.linear(name("attn_output"), {{name("attn_output"), config.hidden}}, config.q_dim());

  gate_up_ =
      plan.fused_linear(name("ffn_gate_up"), name("ffn_norm.weight"), config.norm_eps,
                        {{name("ffn_gate"), config.ffn}, {name("ffn_up"), config.ffn}}, config.hidden, config.activation);
  down_ = plan.linear(name("ffn_down"), {{name("ffn_down"), config.hidden}}, config.ffn);

  qkv_.append(attend_, &Buffers::hidden, &Buffers::projected);
  attend_.push_back({std::string(RopeAppend::name), [this](const Step& step) { append_keys(step); }});
  attend_.push_back({std::string(Attention::name), [this](const Step& step) { attend_to_keys(step); }});

  attention_output_.append_residual(finish_, &Buffers::gathered, &Buffers::hidden);
  gate_up_.append(finish_, &Buffers::hidden, &Buffers::gathered);
  down_.append_residual(finish_, &Buffers::gathered, &Buffers::hidden);
}

void DecoderLayer::append_keys(const Step& step) const {
  float* q = step.buffers.projected;
  float* k = q + q_dim_;
  float* v = k + kv_dim_;
  Resolved<RopeAppend> rope_append = rope_append_;
  rope_append.spec.layout = step.layout;
  const auto data = [](const WeightVector* vector) { return vector != nullptr ? vector->data : nullptr; };
  rope_append.run(
      {q, k, v, qkv_.linear.width(), data(q_norm_), data(k_norm_), data(inverse_frequency_), step.cache, step.batch}, step);
}

void DecoderLayer::attend_to_keys(const Step& step) const {
  if (step.results) {
    attention_.run({.q = step.buffers.projected, .q_stride = qkv_.linear.width(), .out = step.buffers.gathered}, step);
  }
}

std::unique_ptr<Layer> make_decoder_layer(ExecutionPlan& plan, const ModelConfig& config, int index) {
  return std::make_unique<DecoderLayer>(plan, config, index);
}

}  // namespace rocmforge
