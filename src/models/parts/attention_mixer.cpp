#include "models/parts/attention_mixer.h"

namespace rocmforge {

AttentionMixer::AttentionMixer(Planner& planner, const ModelConfig& config, int index, const std::optional<KvPlace>& shared)
    : config_(config.layer(index).attention) {
  width_ = config_.q_dim();
  plan_projections(planner, config, index);
  plan_attention(planner, config, index, shared);
  planner.buffers().need(BufferName::projected, config_.keys_at() + config_.own_kv_dim());
  planner.buffers().need_after_gather(BufferName::gathered, width_);
  const BlockGraph& graph = config.layer(index).graph;
  output_ = ResidualOutput(planner, config, index,
                           {.linear = "attn_output",
                            .k = width_,
                            .norm = graph.mixer_post_norm,
                            .sum_norm = graph.mixer_sum_norm,
                            .needs_bias = config_.output_needs_bias});

  qkv_.append(mix_, &Buffers::hidden, &Buffers::projected);
  if (q_row_norm_) {
    mix_.push_back({std::string(q_row_norm_->kind()), [this](const Step& step) { normalise_rows(step); }});
  }
  mix_.push_back({std::string(RopeAppend::name), [this](const Step& step) { append_keys(step); }});
  mix_.push_back({std::string(Attention::name), [this](const Step& step) { attend(step); }});
  if (config_.output_gate) {
    mix_.push_back({std::string(OutputGate::name), [this](const Step& step) { gate(step); }});
  }
  output_.append(project_);
}

void AttentionMixer::plan_projections(Planner& planner, const ModelConfig& config, int index) {
  const auto name = [index](std::string_view part) { return block_tensor(index, part); };
  const bool one_tensor = !config_.output_gate && planner.weights().has_tensor(name("attn_qkv.weight"));
  const std::int64_t q_dim = config_.q_dim();
  const std::int64_t kv_dim = config_.kv_dim();
  const bool needs_bias = config_.needs_bias;
  const std::vector<LinearName> one{{name("attn_qkv"), q_dim + config_.own_kv_dim(), needs_bias}};
  const RowGroups gates{config_.q_heads, {config_.head_dim, config_.head_dim}};
  const LinearName queries{name("attn_q"), config_.keys_at(), needs_bias, config_.output_gate ? gates : RowGroups{}};
  std::vector<LinearName> several{queries};
  if (config_.has_keys()) {
    several.push_back({name("attn_k"), kv_dim, needs_bias});
  }
  for (const char* tensor : {"attn_k.weight", "attn_v.weight", "attn_k_norm.weight"}) {
    if (!config_.has_keys()) {
      planner.weights().pass_over(name(tensor));
    }
  }
  if (config_.has_keys() && !config_.values_are_keys) {
    several.push_back({name("attn_v"), kv_dim, needs_bias});
  }
  qkv_ = planner.fused_linear(name("attn_qkv"), block_norm(config, index, config.layer(index).graph.mixer_norm),
                              one_tensor ? one : several, config.hidden);
  if (config_.qk_norm == QkNorm::heads) {
    q_norm_ = planner.vector(name("attn_q_norm.weight"), config_.head_dim);
    k_norm_ = config_.has_keys() ? planner.vector(name("attn_k_norm.weight"), config_.head_dim) : nullptr;
  } else if (config_.qk_norm == QkNorm::vectors) {
    q_row_norm_ = planner.norm({name("attn_q_norm"), NormKind::rms, config.norm_eps}, q_dim);
    k_row_norm_ = planner.norm({name("attn_k_norm"), NormKind::rms, config.norm_eps}, kv_dim);
  } else if (config_.qk_norm == QkNorm::layer_heads) {
    const auto of_heads = [&](std::string_view part, std::int32_t heads) {
      return planner.norm({.name = name(part), .kind = NormKind::layer, .eps = config.norm_eps, .groups = heads},
                          config_.head_dim);
    };
    q_row_norm_ = of_heads("attn_q_norm", config_.q_heads);
    k_row_norm_ = of_heads("attn_k_norm", config_.kv_heads);
  }
}

void AttentionMixer::plan_attention(Planner& planner, const ModelConfig& config, int index,
                                    const std::optional<KvPlace>& shared) {
  const RopeConfig& rope = config_.rope;
  if (rope.kind != RopeKind::none) {
    inverse_frequency_ = planner.weights().constants(rope.frequencies->inverse_frequency);
    axes_ = rope.axes != nullptr ? planner.weights().constants(*rope.axes) : nullptr;
  }
  if (config_.sinks) {
    sinks_ = planner.vector(block_tensor(index, "attn_sinks.weight"), config_.q_heads);
  }
  PlannedAttention planned = planner.attention({.q_heads = config_.q_heads,
                                                .kv_heads = config_.kv_heads,
                                                .head_dim = config_.head_dim,
                                                .kv_dtype = planner.kv_dtype(),
                                                .scale = config_.scale,
                                                .window = config_.window,
                                                .soft_cap = config_.soft_cap,
                                                .sinks = config_.sinks,
                                                .causal = !config.encoder.is_encoder},
                                               shared);
  attention_ = planned.attention;
  kv_place_ = planned.place;
  if (config_.output_gate) {
    output_gate_ = planner.resolve<OutputGate>({.heads = config_.q_heads, .dim = config_.head_dim});
  }
  rope_append_ = planner.rope_append({.kind = rope.kind,
                                      .q_heads = config_.q_heads,
                                      .head_dim = config_.head_dim,
                                      .n_rot = rope.n_rot,
                                      .head_norm = config_.qk_norm == QkNorm::heads,
                                      .norm_after_turn = config_.norm_after_turn,
                                      .value_norm = config_.value_norm,
                                      .append = config_.has_keys(),
                                      .norm_eps = config.norm_eps,
                                      .magnitude = rope.kind != RopeKind::none ? rope.frequencies->magnitude : 1.0f,
                                      .temperature_scale = config_.temperature_scale,
                                      .temperature_length = config_.temperature_length,
                                      .layout = planned.layout},
                                     attention_);
}

void AttentionMixer::normalise_rows(const Step& step) const {
  float* q = step.buffers.projected;
  float* k = q + config_.keys_at();
  const std::int64_t stride = qkv_.linear.width();
  q_row_norm_->run_strided(step.tokens, q, stride, step);
  k_row_norm_->run_strided(step.tokens, k, stride, step);
}

Attention::Append AttentionMixer::append_of(const Step& step) const {
  float* q = step.buffers.projected;
  float* k = q + config_.keys_at();
  float* v = config_.values_are_keys ? k : k + config_.kv_dim();
  RopeAppend::Spec spec = rope_append_.spec;
  spec.layout = step.layout;
  const auto data = [](const WeightVector* vector) { return vector != nullptr ? vector->data : nullptr; };
  return {spec,
          {q, k, v, qkv_.linear.width(), data(q_norm_), data(k_norm_), data(inverse_frequency_), step.cache, step.batch,
           axes_ != nullptr ? axes_->data : nullptr}};
}

bool AttentionMixer::attention_appends(const Step& step) const {
  return step.results && attention_.takes(rope_append_.spec, step);
}

void AttentionMixer::append_keys(const Step& step) const {
  if (!attention_appends(step)) {
    const Attention::Append append = append_of(step);
    Resolved<RopeAppend>{append.spec, rope_append_.kernel}.run(append.args, step);
  }
}

void AttentionMixer::attend(const Step& step) const {
  if (step.results) {
    std::optional<Attention::Append> append;
    if (attention_appends(step)) {
      append = append_of(step);
    }
    attention_.run({.q = step.buffers.projected,
                    .q_stride = qkv_.linear.width(),
                    .sinks = sinks_ != nullptr ? sinks_->data : nullptr,
                    .out = step.buffers.gathered,
                    .append = append ? &*append : nullptr},
                   step);
  }
}

void AttentionMixer::gate(const Step& step) const {
  if (step.results) {
    output_gate_.run({.x = step.buffers.gathered,
                      .x_stride = config_.q_dim(),
                      .gate = step.buffers.projected + config_.q_dim(),
                      .gate_stride = qkv_.linear.width(),
                      .tokens = step.tokens,
                      .out = step.buffers.gathered},
                     step);
  }
}

}  // namespace rocmforge
