#include "models/parts/delta_net_mixer.h"

#include <string>
#include <vector>

namespace rocmforge {

// A row of Buffers::projected is [queries, keys, values | gates of the output | beta | alpha]. The convolution of [queries,
// keys, values] goes to Buffers::gathered. The outputs of the delta rule overwrite [queries, keys, values], and the gated
// outputs go to Buffers::gathered.

DeltaNetMixer::DeltaNetMixer(Planner& planner, const ModelConfig& config, int index)
    : config_(config.layer(index).delta_net) {
  width_ = config_.values();
  plan_projections(planner, config, index);
  plan_states(planner, config, index);
  planner.buffers().need(BufferName::projected, inputs_.linear.width());
  planner.buffers().need_after_gather(BufferName::gathered, config_.channels());
  output_ = ResidualOutput(planner, config, index, {"ssm_out", width_, config.layer(index).graph.mixer_post_norm});

  inputs_.append(mix_, &Buffers::hidden, &Buffers::projected);
  mix_.push_back({std::string(CausalConv::name), [this](const Step& step) { convolve(step); }});
  mix_.push_back({std::string(GatedDeltaNet::name), [this](const Step& step) { scan(step); }});
  mix_.push_back({std::string(OutputGate::name), [this](const Step& step) { gate(step); }});
  output_.append(project_);
}

/// Files store the rows of one key head side by side (ssm_in, ssm_ba), or each kind of rows in a tensor of its own.
void DeltaNetMixer::plan_projections(Planner& planner, const ModelConfig& config, int index) {
  const auto name = [index](std::string_view part) { return block_tensor(index, part); };
  const std::int64_t heads = config_.value_heads;
  const std::int64_t heads_each = heads / config_.key_heads;
  const std::int64_t values_each = heads_each * config_.value_dim;
  std::vector<LinearName> names;
  if (planner.weights().has_tensor(name("ssm_in.weight"))) {
    const RowGroups groups{config_.key_heads, {config_.key_dim, config_.key_dim, values_each, values_each}};
    names.push_back({name("ssm_in"), config_.channels() + config_.values(), false, groups});
  } else {
    names.push_back({name("attn_qkv"), config_.channels()});
    names.push_back({name("attn_gate"), config_.values()});
  }
  if (planner.weights().has_tensor(name("ssm_ba.weight"))) {
    names.push_back({name("ssm_ba"), 2 * heads, false, {config_.key_heads, {heads_each, heads_each}}});
  } else {
    names.push_back({name("ssm_beta"), heads});
    names.push_back({name("ssm_alpha"), heads});
  }
  inputs_ = planner.fused_linear(name("ssm_in"), block_norm(config, index, config.layer(index).graph.mixer_norm), names,
                                 config.hidden);
}

void DeltaNetMixer::plan_states(Planner& planner, const ModelConfig& config, int index) {
  const auto name = [index](std::string_view part) { return block_tensor(index, part); };
  const CausalConv::Spec conv{.channels = config_.channels(), .taps = config_.taps, .silu = true};
  const GatedDeltaNet::Spec delta_net{.key_heads = config_.key_heads,
                                      .value_heads = config_.value_heads,
                                      .key_dim = config_.key_dim,
                                      .value_dim = config_.value_dim,
                                      .tiled = config_.tiled};
  conv_weight_ = planner.floats(name("ssm_conv1d.weight"), {conv.channels, conv.taps});
  rate_ = planner.vector(name("ssm_a"), config_.value_heads);
  step_bias_ = planner.vector(name("ssm_dt.bias"), config_.value_heads);
  norm_ = planner.vector(name("ssm_norm.weight"), config_.value_dim);
  conv_ = planner.resolve<CausalConv>(conv);
  delta_net_ = planner.resolve<GatedDeltaNet>(delta_net);
  output_gate_ = planner.resolve<OutputGate>({.heads = config_.value_heads,
                                              .dim = config_.value_dim,
                                              .gate = OutputGate::Gate::silu,
                                              .norm = true,
                                              .eps = config.norm_eps});
  conv_state_ = planner.add_state(static_cast<std::size_t>(conv.state_elems()) * sizeof(float));
  state_ = planner.add_state(static_cast<std::size_t>(delta_net.state_elems()) * sizeof(float));
}

void DeltaNetMixer::convolve(const Step& step) const {
  conv_.run({.x = step.buffers.projected,
             .x_stride = inputs_.linear.width(),
             .weight = conv_weight_->data,
             .states = step.states.at(conv_state_),
             .batch = step.batch,
             .out = step.buffers.gathered},
            step);
}

void DeltaNetMixer::scan(const Step& step) const {
  const std::int64_t stride = inputs_.linear.width();
  const float* gates = step.buffers.projected + config_.channels() + config_.values();
  delta_net_.run({.qkv = step.buffers.gathered,
                  .qkv_stride = config_.channels(),
                  .beta = gates,
                  .alpha = gates + config_.value_heads,
                  .gate_stride = stride,
                  .rate = rate_->data,
                  .step_bias = step_bias_->data,
                  .states = step.states.at(state_),
                  .batch = step.batch,
                  .out = step.buffers.projected,
                  .out_stride = stride,
                  .workspace = step.buffers.scratch},
                 step);
}

void DeltaNetMixer::gate(const Step& step) const {
  if (step.results) {
    output_gate_.run({.x = step.buffers.projected,
                      .x_stride = inputs_.linear.width(),
                      .gate = step.buffers.projected + config_.channels(),
                      .gate_stride = inputs_.linear.width(),
                      .weight = norm_->data,
                      .tokens = step.tokens,
                      .out = step.buffers.gathered},
                     step);
  }
}

}  // namespace rocmforge
