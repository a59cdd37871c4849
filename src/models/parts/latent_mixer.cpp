#include "models/parts/latent_mixer.h"

#include <algorithm>
#include <string>

namespace rocmforge {

// Operations alternate between two buffers. With a latent of the queries: gathered = [q latent | c | r], projected =
// queries. Without: projected = [queries | c | r]. Then gathered = absorbed queries, projected = sums of latents, gathered =
// outputs of the heads, projected = their gates. The decompressed form goes directly from the projected queries to the
// gathered outputs.

LatentMixer::LatentMixer(Planner& planner, const ModelConfig& config, int index) : config_(config.layer(index).attention) {
  heads_ = planner.own(index, config_.q_heads, "heads");
  config_.q_heads = static_cast<std::int32_t>(heads_.count);
  width_ = std::int64_t{config_.q_heads} * config_.latent.value_dim;
  plan_projections(planner, config, index);
  plan_attention(planner, config, index);
  const std::int64_t heads = config_.q_heads;
  planner.buffers().need(BufferName::projected,
                         std::max(heads * query_dim() + config_.head_dim, heads * config_.latent.rank));
  planner.buffers().need_after_gather(
      BufferName::gathered, std::max({config_.q_dim(), std::int64_t{config_.latent.q_rank} + config_.head_dim, width_}));
  const std::int64_t all_heads = config.layer(index).attention.q_heads;
  output_ = ResidualOutput(planner, config, index,
                           {.linear = "attn_output",
                            .k = width_,
                            .norm = config.layer(index).graph.mixer_post_norm,
                            .columns = Selection::run(heads_, all_heads).times(config_.latent.value_dim)});
  add_operations();
}

void LatentMixer::plan_projections(Planner& planner, const ModelConfig& config, int index) {
  const auto name = [index](std::string_view part) { return block_tensor(index, part); };
  const auto norm = block_norm(config, index, config.layer(index).graph.mixer_norm);
  const LinearName latent{name("attn_kv_a_mqa"), config_.head_dim};
  const std::int64_t q_rank = config_.latent.q_rank;
  const Selection query_rows = Selection::run(heads_, config.layer(index).attention.q_heads).times(query_dim());
  if (has_query_latent()) {
    input_ = planner.fused_linear(name("attn_q_kv_a"), norm, {{name("attn_q_a"), q_rank}, latent}, config.hidden);
    queries_ = planner.fused_linear(name("attn_q_b"), NormName{name("attn_q_a_norm"), NormKind::rms, config.norm_eps},
                                    {{.name = name("attn_q_b"), .n = query_width(), .rows = query_rows}}, q_rank);
  } else {
    input_ = planner.fused_linear(name("attn_q_kv_a"), norm,
                                  {{.name = name("attn_q"), .n = query_width(), .rows = query_rows}, latent}, config.hidden);
  }
  if (config_.own_gate) {
    gates_ = planner.fused_linear(name("attn_gate"), norm,
                                  {{.name = name("attn_gate"),
                                    .n = config_.q_heads,
                                    .rows = Selection::run(heads_, config.layer(index).attention.q_heads)}},
                                  config.hidden);
    output_gate_ = planner.resolve<OutputGate>(
        {.heads = config_.q_heads, .dim = config_.latent.value_dim, .gate = *config_.own_gate, .of_heads = true});
  }
  kv_norm_ = planner.vector(name("attn_kv_a_norm.weight"), config_.latent.rank);
  for (const char* part : {"attn_k.weight", "attn_q_b.weight", "k_norm.weight", "k_norm.bias", "proj.weight"}) {
    if (config_.latent.indexed) {
      planner.weights().pass_over(name("indexer.") + part);
    }
  }
}

void LatentMixer::plan_attention(Planner& planner, const ModelConfig& config, int index) {
  const auto name = [index](std::string_view part) { return block_tensor(index, part); };
  const LatentConfig& latent = config_.latent;
  const RopeConfig& rope = config_.rope;
  if (rope.kind != RopeKind::none) {
    inverse_frequency_ = planner.weights().constants(rope.frequencies->inverse_frequency);
  }
  const std::int64_t all_heads = config.layer(index).attention.q_heads;
  const std::int64_t joined_rows = std::int64_t{latent.plain_dim} + latent.value_dim;
  keys_ = planner.heads({name("attn_k_b"), name("attn_kv_b"), joined_rows, 0, true, heads_.first, all_heads},
                        {.heads = config_.q_heads, .n = latent.rank, .k = latent.plain_dim, .tail = rope.n_rot});
  values_ =
      planner.heads({name("attn_v_b"), name("attn_kv_b"), joined_rows, latent.plain_dim, false, heads_.first, all_heads},
                    {.heads = config_.q_heads, .n = latent.value_dim, .k = latent.rank});
  const PlannedAttention planned = planner.attention({.q_heads = config_.q_heads,
                                                      .kv_heads = config_.kv_heads,
                                                      .head_dim = config_.head_dim,
                                                      .kv_dtype = planner.kv_dtype(),
                                                      .scale = config_.scale,
                                                      .value_dim = latent.rank});
  attention_ = planned.attention;
  kv_place_ = planned.place;
  prefill_ = planner.latent_prefill(*keys_, *values_, planned);
  append_ = planner.resolve<LatentAppend>({.kind = rope.kind,
                                           .q_heads = config_.q_heads,
                                           .q_dim = static_cast<std::int32_t>(query_dim()),
                                           .n_rot = rope.n_rot,
                                           .norm_eps = config.norm_eps,
                                           .magnitude = rope.frequencies->magnitude,
                                           .temperature_scale = config_.temperature_scale,
                                           .temperature_length = config_.temperature_length,
                                           .layout = planned.layout});
}

void LatentMixer::add_operations() {
  input_.append(mix_, &Buffers::hidden, has_query_latent() ? &Buffers::gathered : &Buffers::projected);
  if (has_query_latent()) {
    queries_->append_strided(mix_, &Buffers::gathered, input_.linear.width(), &Buffers::projected);
  }
  mix_.push_back({std::string(LatentAppend::name), [this](const Step& step) { append(step); }});
  // In the last layer of a step that wants only K and V, all operations after the append are skipped.
  const auto add = [this](std::string_view kind, void (LatentMixer::*run)(const Step&) const) {
    mix_.push_back({std::string(kind), [this, run](const Step& step) {
                      if (step.results) {
                        (this->*run)(step);
                      }
                    }});
  };
  if (prefill_) {
    add(LatentExpand::name, &LatentMixer::attend_prompts);
  }
  add("attn_k_b", &LatentMixer::absorb_queries);
  add(Attention::name, &LatentMixer::attend);
  add("attn_v_b", &LatentMixer::gather_values);
  if (gates_) {
    gates_->append(mix_, &Buffers::hidden, &Buffers::projected);
    add(OutputGate::name, &LatentMixer::gate);
  }
  output_.append(project_);
}

void LatentMixer::append(const Step& step) const {
  const float* input = has_query_latent() ? step.buffers.gathered : step.buffers.projected;
  Resolved<LatentAppend> append = append_;
  append.spec.layout = step.layout;
  append.run({.q = step.buffers.projected,
              .q_stride = query_stride(),
              .kv = input + (has_query_latent() ? config_.latent.q_rank : query_width()),
              .kv_stride = input_.linear.width(),
              .norm = kv_norm_->data,
              .inverse_frequency = inverse_frequency_ != nullptr ? inverse_frequency_->data : nullptr,
              .cache = step.cache,
              .batch = step.batch},
             step);
}

void LatentMixer::attend_prompts(const Step& step) const {
  if (step.any_several) {
    prefill_->run(step, step.buffers.projected, query_stride(), step.buffers.gathered);
  }
}

void LatentMixer::absorb_queries(const Step& step) const {
  if (is_absorbed(step)) {
    keys_->run(step, step.buffers.projected, query_stride(), step.buffers.gathered, prefill_ && step.any_several);
  }
}

void LatentMixer::attend(const Step& step) const {
  const Attention::Args args{.q = step.buffers.gathered, .q_stride = config_.q_dim(), .out = step.buffers.projected};
  if (!prefill_) {
    attention_.run(args, step);
  } else if (is_absorbed(step)) {
    attention_.run_single(args, step);
  }
}

void LatentMixer::gather_values(const Step& step) const {
  if (is_absorbed(step)) {
    values_->run(step, step.buffers.projected, std::int64_t{config_.q_heads} * config_.latent.rank, step.buffers.gathered,
                 prefill_ && step.any_several);
  }
  if (prefill_ && step.any_several) {
    prefill_->finish(step, step.buffers.gathered);
  }
}

void LatentMixer::gate(const Step& step) const {
  output_gate_.run({.x = step.buffers.gathered,
                    .x_stride = width_,
                    .gate = step.buffers.projected,
                    .gate_stride = config_.q_heads,
                    .tokens = step.tokens,
                    .out = step.buffers.gathered},
                   step);
}

}  // namespace rocmforge
