#include "models/parts/kimi_delta_mixer.h"

#include <array>
#include <string>
#include <string_view>
#include <vector>

namespace rocmforge {

// A row of Buffers::projected is [q | k | v | Wb y]. Buffers::gathered has the rows [Wfa y | Wga y], and behind them those
// of the convolution of q, k and v. Then decays, outputs of the delta net and gates take the places of these: a row is
// [decays | outputs | gates | Wb y]. The gated outputs go to Buffers::gathered.

KimiDeltaMixer::KimiDeltaMixer(Planner& planner, const ModelConfig& config, int index)
    : config_(config.layer(index).delta_net) {
  const std::int32_t all = config_.value_heads;
  const Range own = planner.own(index, all, "heads");
  heads_ = Selection::run(own, all);
  rows_ = heads_.times(config_.value_dim);
  config_.key_heads = static_cast<std::int32_t>(own.count);
  config_.value_heads = config_.key_heads;
  width_ = config_.values();
  plan_projections(planner, config, index);
  plan_states(planner, config, index);
  planner.buffers().need(BufferName::projected, stride());
  planner.buffers().need_after_gather(BufferName::gathered, latents_.linear.width() + config_.channels());
  output_ = ResidualOutput(
      planner, config, index,
      {.linear = "attn_output", .k = config_.values(), .norm = config.layer(index).graph.mixer_post_norm, .columns = rows_});
  add_operations();
}

void KimiDeltaMixer::plan_projections(Planner& planner, const ModelConfig& config, int index) {
  const auto name = [index](std::string_view part) { return block_tensor(index, part); };
  const std::int64_t values = config_.values();
  const std::int64_t rank = config_.value_dim;
  std::vector<LinearName> names;
  for (const char* part : {"attn_q", "attn_k", "attn_v"}) {
    names.push_back({.name = name(part), .n = values, .rows = rows_});
  }
  names.push_back({.name = name("ssm_beta"), .n = config_.value_heads, .rows = heads_});
  const auto norm = block_norm(config, index, config.layer(index).graph.mixer_norm);
  inputs_ = planner.fused_linear(name("attn_qkv"), norm, names, config.hidden);
  latents_ = planner.fused_linear(name("ssm_fg_a"), norm, {{name("ssm_f_a"), rank}, {name("ssm_g_a"), rank}}, config.hidden);
  decays_ = planner.linear(name("ssm_f_b"), {{.name = name("ssm_f_b"), .n = values, .rows = rows_}}, rank);
  gates_ = planner.linear(name("ssm_g_b"), {{.name = name("ssm_g_b"), .n = values, .rows = rows_}}, rank);
}

void KimiDeltaMixer::plan_states(Planner& planner, const ModelConfig& config, int index) {
  const auto name = [index](std::string_view part) { return block_tensor(index, part); };
  const CausalConv::Spec conv{.channels = config_.channels(), .taps = config_.taps, .silu = true};
  const GatedDeltaNet::Spec delta_net{.key_heads = config_.key_heads,
                                      .value_heads = config_.value_heads,
                                      .key_dim = config_.key_dim,
                                      .value_dim = config_.value_dim,
                                      .decays_of_keys = true};
  const std::array<std::string, 3> convs{name("ssm_conv1d_q.weight"), name("ssm_conv1d_k.weight"),
                                         name("ssm_conv1d_v.weight")};
  conv_weight_ = planner.joined_floats(convs, {config_.values(), conv.taps}, rows_);
  rate_ = planner.floats(name("ssm_a"), {config_.value_heads}, heads_);
  step_bias_ = planner.floats(name("ssm_dt.bias"), {config_.values()}, rows_);
  norm_ = planner.vector(name("ssm_norm.weight"), config_.value_dim);
  conv_ = planner.resolve<CausalConv>(conv);
  delta_net_ = planner.resolve<GatedDeltaNet>(delta_net);
  output_gate_ = planner.resolve<OutputGate>({.heads = config_.value_heads,
                                              .dim = config_.value_dim,
                                              .gate = OutputGate::Gate::sigmoid,
                                              .norm = true,
                                              .eps = config.norm_eps});
  conv_state_ = planner.add_state(static_cast<std::size_t>(conv.state_elems()) * sizeof(float));
  state_ = planner.add_state(static_cast<std::size_t>(delta_net.state_elems()) * sizeof(float));
}

void KimiDeltaMixer::add_operations() {
  inputs_.append(mix_, &Buffers::hidden, &Buffers::projected);
  latents_.append(mix_, &Buffers::hidden, &Buffers::gathered);
  mix_.push_back({std::string(CausalConv::name), [this](const Step& step) { convolve(step); }});
  mix_.push_back({decays_.kind(), [this](const Step& step) { make_decays(step); }});
  mix_.push_back({std::string(GatedDeltaNet::name), [this](const Step& step) { scan(step); }});
  mix_.push_back({gates_.kind(), [this](const Step& step) { make_gates(step); }});
  mix_.push_back({std::string(OutputGate::name), [this](const Step& step) { gate(step); }});
  output_.append(project_);
}

void KimiDeltaMixer::convolve(const Step& step) const {
  conv_.run({.x = step.buffers.projected,
             .x_stride = stride(),
             .weight = conv_weight_->data,
             .states = step.states.at(conv_state_),
             .batch = step.batch,
             .out = convolved(step)},
            step);
}

void KimiDeltaMixer::make_decays(const Step& step) const {
  decays_.run_strided(step, step.buffers.gathered, latents_.linear.width(), step.buffers.projected, {}, false, stride());
}

void KimiDeltaMixer::scan(const Step& step) const {
  delta_net_.run({.qkv = convolved(step),
                  .qkv_stride = config_.channels(),
                  .beta = step.buffers.projected + config_.channels(),
                  .alpha = step.buffers.projected,
                  .gate_stride = stride(),
                  .rate = rate_->data,
                  .step_bias = step_bias_->data,
                  .states = step.states.at(state_),
                  .batch = step.batch,
                  .out = step.buffers.projected + config_.values(),
                  .out_stride = stride(),
                  .workspace = step.buffers.scratch},
                 step);
}

void KimiDeltaMixer::make_gates(const Step& step) const {
  if (step.results) {
    gates_.run_strided(step, step.buffers.gathered + config_.value_dim, latents_.linear.width(),
                       step.buffers.projected + 2 * config_.values(), {}, false, stride());
  }
}

void KimiDeltaMixer::gate(const Step& step) const {
  if (step.results) {
    output_gate_.run({.x = step.buffers.projected + config_.values(),
                      .x_stride = stride(),
                      .gate = step.buffers.projected + 2 * config_.values(),
                      .gate_stride = stride(),
                      .weight = norm_->data,
                      .tokens = step.tokens,
                      .out = step.buffers.gathered},
                     step);
  }
}

}  // namespace rocmforge
