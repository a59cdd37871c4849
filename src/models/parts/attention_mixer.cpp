#include "models/parts/attention_mixer.h"

#include <algorithm>
#include <vector>

namespace rocmforge {

AttentionMixer::AttentionMixer(Planner& planner, const ModelConfig& config, int index, const std::optional<KvPlace>& shared,
                               float* Buffers::*into)
    : config_(config.layer(index).attention) {
  take_share(planner, config.layer(index).attention, index);
  width_ = config_.q_dim();
  plan_projections(planner, config, index);
  plan_attention(planner, config, index, shared);
  planner.buffers().need(BufferName::projected, qkv_.linear.width());
  planner.buffers().need_after_gather(BufferName::gathered, width_);
  const BlockGraph& graph = config.layer(index).graph;
  output_ = ResidualOutput(planner, config, index,
                           {.linear = "attn_output",
                            .k = width_,
                            .factors = graph.mixer_factors,
                            .norm = graph.mixer_post_norm,
                            .sum_norm = graph.mixer_sum_norm,
                            .needs_bias = config_.output_needs_bias,
                            .sum_scale = graph.mixer_sum_scale,
                            .columns = q_heads_.times(config_.head_dim),
                            .into = into});

  qkv_.append(mix_, config_.joined_input ? &Buffers::features : &Buffers::hidden, &Buffers::projected);
  if (q_row_norm_) {
    mix_.push_back({std::string(q_row_norm_->kind()), [this](const Step& step) { normalise_rows(step); }});
  }
  mix_.push_back({std::string(RopeAppend::name), [this](const Step& step) { append_keys(step); }});
  mix_.push_back({std::string(Attention::name), [this](const Step& step) { attend(step); }});
  if (output_gate_.kernel != nullptr) {
    mix_.push_back({std::string(OutputGate::name), [this](const Step& step) { gate(step); }});
  }
  output_.append(project_);
}

namespace {

/// Of each of so many heads the quarters 0, 2, 1 and 3: AttentionConfig::halves_turn.
Selection middle_quarters_exchanged(std::int64_t heads, std::int64_t dim) {
  Selection selection{.of = heads * dim};
  for (std::int64_t head = 0; head < heads; ++head) {
    for (const std::int64_t quarter : {0, 2, 1, 3}) {
      selection.ranges.push_back({head * dim + quarter * dim / 4, dim / 4});
    }
  }
  return selection;
}

}  // namespace

void AttentionMixer::take_share(const Planner& planner, const AttentionConfig& all, int index) {
  const Range q = planner.own(index, all.q_heads, "query heads");
  const Range kv = planner.own_or_common(index, all.kv_heads, "KV heads");
  q_heads_ = Selection::run(q, all.q_heads);
  kv_heads_ = Selection::run(kv, all.kv_heads);
  config_.q_heads = static_cast<std::int32_t>(q.count);
  config_.kv_heads = static_cast<std::int32_t>(kv.count);
  const bool needs_all = config_.qk_norm == QkNorm::vectors;
  check(!needs_all || !config_.output_gate, "a norm over all heads knows no gates");
  const std::int64_t dim = all.head_dim;
  q_at_ = needs_all ? q.first * dim : 0;
  all_k_at_ = needs_all ? all.q_dim() : config_.keys_at();
  k_at_ = all_k_at_ + (needs_all ? kv.first * dim : 0);
  v_at_ = config_.values_are_keys ? k_at_ : all_k_at_ + (needs_all ? all.kv_dim() : config_.kv_dim());
}

/// The rows of the projections of Q, K and V that this rank computes.
void AttentionMixer::plan_projections(Planner& planner, const ModelConfig& config, int index) {
  const auto name = [index](std::string_view part) { return block_tensor(index, part); };
  const AttentionConfig& all = config.layer(index).attention;
  const bool one_tensor = !config_.output_gate && planner.weights().has_tensor(name("attn_qkv.weight"));
  const bool needs_all = config_.qk_norm == QkNorm::vectors;
  const std::int64_t dim = config_.head_dim;
  const bool needs_bias = config_.needs_bias;
  const Selection own_values = kv_heads_.times(dim);
  Selection keys = needs_all ? Selection{} : own_values;
  Selection q = needs_all ? Selection{} : q_heads_.times(dim);
  if (config_.output_gate) {
    const std::int64_t query_and_gate[] = {dim, dim};
    q = Selection::grouped(all.q_heads, planner.own(index, all.q_heads, "query heads"), query_and_gate);
  }
  Selection elements;  // of the norms of heads
  if (config_.halves_turn) {
    check(q.whole() && keys.whole() && dim % 4 == 0, "heads whose halves turn are taken whole");
    q = middle_quarters_exchanged(all.q_heads, dim);
    keys = middle_quarters_exchanged(all.kv_heads, dim);
    elements = middle_quarters_exchanged(1, dim);
  }
  const std::int64_t k_width = needs_all ? all.kv_dim() : config_.kv_dim();
  std::vector<LinearName> several{{.name = name("attn_q"), .n = all_k_at_, .needs_bias = needs_bias, .rows = q}};
  std::vector<StackedPart> stacked_parts{{q, all.q_dim()}};
  if (config_.has_keys()) {
    several.push_back({.name = name("attn_k"), .n = k_width, .needs_bias = needs_bias, .rows = keys});
    stacked_parts.push_back({keys, all.kv_dim()});
  }
  if (config_.has_keys() && !config_.values_are_keys) {
    several.push_back({.name = name("attn_v"), .n = config_.kv_dim(), .needs_bias = needs_bias, .rows = own_values});
    stacked_parts.push_back({own_values, all.kv_dim()});
  }
  std::int64_t width = 0;
  std::vector<TensorPiece> pieces;
  for (std::size_t i = 0; i < several.size(); ++i) {
    width += several[i].n;
    pieces.push_back({several[i].name, stacked_parts[i].of});
  }
  std::vector<LinearName> one{
      {.name = name("attn_qkv"), .n = width, .needs_bias = needs_bias, .rows = stacked(stacked_parts), .pieces = pieces}};
  gate_at_ = config_.output_gate ? config_.q_dim() : width;
  if (config_.own_gate) {
    const LinearName gates{.name = name("attn_gate"),
                           .n = config_.own_gates(),
                           .rows = config_.gates_of_heads ? q_heads_ : q_heads_.times(dim)};
    several.push_back(gates);
    one.push_back(gates);
  }
  for (const char* tensor : {"attn_k.weight", "attn_v.weight", "attn_k_norm.weight"}) {
    if (!config_.has_keys()) {
      planner.weights().pass_over(name(tensor));
    }
  }
  qkv_ = planner.fused_linear(name("attn_qkv"), block_norm(config, index, config.layer(index).graph.mixer_norm),
                              one_tensor ? one : several, (config_.joined_input ? 2 : 1) * std::int64_t{config.hidden});
  plan_norms(planner, config, index, elements);
}

void AttentionMixer::plan_norms(Planner& planner, const ModelConfig& config, int index, const Selection& elements) {
  const auto name = [index](std::string_view part) { return block_tensor(index, part); };
  const AttentionConfig& all = config.layer(index).attention;
  const std::int64_t dim = config_.head_dim;
  if (config_.qk_norm == QkNorm::plain_heads) {
    q_norm_ = planner.weights().computed(std::vector<float>(static_cast<std::size_t>(dim), 1.0f));
    k_norm_ = q_norm_;
  } else if (config_.qk_norm == QkNorm::heads) {
    q_norm_ = planner.floats(name("attn_q_norm.weight"), {dim}, elements);
    k_norm_ = config_.has_keys() ? planner.floats(name("attn_k_norm.weight"), {dim}, elements) : nullptr;
  } else if (config_.qk_norm == QkNorm::vectors) {
    q_row_norm_ = planner.norm({name("attn_q_norm"), NormKind::rms, config.norm_eps}, all.q_dim());
    k_row_norm_ = planner.norm({name("attn_k_norm"), NormKind::rms, config.norm_eps}, all.kv_dim());
  } else if (config_.qk_norm == QkNorm::layer_heads) {
    const auto of_heads = [&](std::string_view part, std::int32_t heads, const Selection& rows) {
      return planner.norm(
          {.name = name(part), .kind = NormKind::layer, .eps = config.norm_eps, .groups = heads, .rows = rows}, dim);
    };
    q_row_norm_ = of_heads("attn_q_norm", config_.q_heads, q_heads_);
    k_row_norm_ = of_heads("attn_k_norm", config_.kv_heads, kv_heads_);
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
    sinks_ = planner.floats(block_tensor(index, "attn_sinks.weight"), {config_.q_heads}, q_heads_);
  }
  PlannedAttention planned = planner.attention({.q_heads = config_.q_heads,
                                                .kv_heads = config_.kv_heads,
                                                .head_dim = config_.head_dim,
                                                .kv_dtype = planner.kv_dtype(),
                                                .scale = config_.scale,
                                                .window = config_.window,
                                                .chunked = config_.chunked,
                                                .soft_cap = config_.soft_cap,
                                                .sinks = config_.sinks,
                                                .causal = !config.encoder.is_encoder},
                                               shared, config_.spans);
  attention_ = planned.attention;
  kv_place_ = planned.place;
  if (config_.output_gate || config_.own_gate) {
    output_gate_ = planner.resolve<OutputGate>({.heads = config_.q_heads,
                                                .dim = config_.head_dim,
                                                .gate = config_.own_gate.value_or(OutputGate::Gate::sigmoid),
                                                .of_heads = config_.gates_of_heads});
  }
  rope_append_ = planner.rope_append({.kind = rope.kind,
                                      .q_heads = config_.q_heads,
                                      .head_dim = config_.head_dim,
                                      .n_rot = rope.n_rot,
                                      .head_norm = q_norm_ != nullptr,
                                      .norm_after_turn = config_.norm_after_turn,
                                      .value_norm = config_.value_norm,
                                      .append = config_.has_keys(),
                                      .norm_eps = config.norm_eps,
                                      .magnitude = rope.kind != RopeKind::none ? rope.frequencies->magnitude : 1.0f,
                                      .temperature_scale = config_.temperature_scale,
                                      .temperature_length = config_.temperature_length,
                                      .temperature_ahead = config_.temperature_ahead,
                                      .layout = planned.layout},
                                     attention_);
}

void AttentionMixer::normalise_rows(const Step& step) const {
  float* q = step.buffers.projected;
  float* k = q + all_k_at_;
  const std::int64_t stride = qkv_.linear.width();
  q_row_norm_->run_strided(step.tokens, q, stride, step);
  k_row_norm_->run_strided(step.tokens, k, stride, step);
}

Attention::Append AttentionMixer::append_of(const Step& step) const {
  float* const row = step.buffers.projected;
  float* q = row + q_at_;
  float* k = row + k_at_;
  float* v = row + v_at_;
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
    attention_.run({.q = step.buffers.projected + q_at_,
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
                      .gate = step.buffers.projected + gate_at_,
                      .gate_stride = qkv_.linear.width(),
                      .tokens = step.tokens,
                      .out = step.buffers.gathered},
                     step);
  }
}

}  // namespace rocmforge
