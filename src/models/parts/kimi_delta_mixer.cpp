#include "models/parts/kimi_delta_mixer.h"

#include <array>
#include <string>
#include <string_view>
#include <vector>

namespace rocmforge {

// A row of Buffers::projected is [q | k | v | Wb y]. Buffers::gathered has the rows [Wfa y | Wga y], and behind them those
// of the convolution of q, k and v. Then decays, outputs of the delta net and gates take the places of these: a row is
// [decays | outputs | gates | Wb y]. The gated outputs go to Buffers::gathered.
//
// With full gates a row of Buffers::gathered is [q | k | v]. Buffers::projected has the rows [decays | gates | Wb y], and
// behind them those of the convolution. Outputs go to Buffers::gathered, where they are gated in place.

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
  const std::int64_t behind_latents = latents_.linear.width() + config_.channels();
  planner.buffers().need(BufferName::projected, config_.full_gates ? behind_latents : stride());
  planner.buffers().need_after_gather(BufferName::gathered, config_.full_gates ? inputs_.linear.width() : behind_latents);
  output_ = ResidualOutput(
      planner, config, index,
      {.linear = "attn_output", .k = config_.values(), .norm = config.layer(index).graph.mixer_post_norm, .columns = rows_});
  add_operations();
}

void KimiDeltaMixer::plan_projections(Planner& planner, const ModelConfig& config, int index) {
  const auto name = [index](std::string_view part) { return block_tensor(index, part); };
  const std::int64_t values = config_.values();
  const auto elements = [&](const char* part) { return LinearName{.name = name(part), .n = values, .rows = rows_}; };
  const LinearName beta{.name = name("ssm_beta"), .n = config_.value_heads, .rows = heads_};
  const auto norm = block_norm(config, index, config.layer(index).graph.mixer_norm);
  std::vector<LinearName> inputs{elements("attn_q"), elements("attn_k"), elements("attn_v")};
  if (config_.full_gates) {
    latents_ = planner.fused_linear(name("ssm_fg_a"), norm, {elements("ssm_f_a"), elements("ssm_g_a"), beta}, config.hidden);
  } else {
    inputs.push_back(beta);
    const std::int64_t rank = config_.value_dim;
    latents_ =
        planner.fused_linear(name("ssm_fg_a"), norm, {{name("ssm_f_a"), rank}, {name("ssm_g_a"), rank}}, config.hidden);
    decays_ = planner.linear(name("ssm_f_b"), {elements("ssm_f_b")}, rank);
    gates_ = planner.linear(name("ssm_g_b"), {elements("ssm_g_b")}, rank);
  }
  inputs_ = planner.fused_linear(name("attn_qkv"), norm, inputs, config.hidden);
}

void KimiDeltaMixer::plan_states(Planner& planner, const ModelConfig& config, int index) {
  const auto name = [index](std::string_view part) { return block_tensor(index, part); };
  const CausalConv::Spec conv{.channels = config_.channels(), .taps = config_.taps, .silu = true};
  const GatedDeltaNet::Spec delta_net{.key_heads = config_.key_heads,
                                      .value_heads = config_.value_heads,
                                      .key_dim = config_.key_dim,
                                      .value_dim = config_.value_dim,
                                      .decays_of_keys = true,
                                      .decay_floor = config_.decay_floor};
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
  inputs_.append(mix_, &Buffers::hidden, input_rows());
  latents_.append(mix_, &Buffers::hidden, latent_rows());
  mix_.push_back({std::string(CausalConv::name), [this](const Step& step) { convolve(step); }});
  if (!config_.full_gates) {
    mix_.push_back({decays_.kind(), [this](const Step& step) { make_decays(step); }});
  }
  mix_.push_back({std::string(GatedDeltaNet::name), [this](const Step& step) { scan(step); }});
  if (!config_.full_gates) {
    mix_.push_back({gates_.kind(), [this](const Step& step) { make_gates(step); }});
  }
  mix_.push_back({std::string(OutputGate::name), [this](const Step& step) { gate(step); }});
  output_.append(project_);
}

void KimiDeltaMixer::convolve(const Step& step) const {
  conv_.run({.x = step.buffers.*input_rows(),
             .x_stride = inputs_.linear.width(),
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
                  .beta = step.buffers.projected + beta_at(),
                  .alpha = step.buffers.projected,
                  .gate_stride = stride(),
                  .rate = rate_->data,
                  .step_bias = step_bias_->data,
                  .states = step.states.at(state_),
                  .batch = step.batch,
                  .out = outputs(step),
                  .out_stride = output_stride(),
                  .workspace = step.buffers.scratch},
                 step);
}

void KimiDeltaMixer::make_gates(const Step& step) const {
  if (step.results) {
    gates_.run_strided(step, step.buffers.gathered + config_.value_dim, latents_.linear.width(),
                       step.buffers.projected + gates_at(), {}, false, stride());
  }
}

void KimiDeltaMixer::gate(const Step& step) const {
  if (step.results) {
    output_gate_.run({.x = outputs(step),
                      .x_stride = output_stride(),
                      .gate = step.buffers.projected + gates_at(),
                      .gate_stride = stride(),
                      .weight = norm_->data,
                      .tokens = step.tokens,
                      .out = step.buffers.gathered},
                     step);
  }
}

}  // namespace rocmforge
