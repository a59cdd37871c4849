#include "models/parts/delta_net_mixer.h"

#include <string>
#include <vector>

namespace rocmforge {

// A row of Buffers::projected is [queries, keys, values | gates of the output | beta | alpha]. The convolution of [queries,
// keys, values] goes to Buffers::gathered. The outputs of the delta rule overwrite [queries, keys, values], and the gated
// outputs go to Buffers::gathered.

DeltaNetMixer::DeltaNetMixer(Planner& planner, const ModelConfig& config, int index)
    : config_(config.layer(index).delta_net) {
  take_share(planner, config.layer(index).delta_net, index);
  width_ = config_.values();
  plan_projections(planner, config, index);
  plan_states(planner, config, index);
  planner.buffers().need(BufferName::projected, inputs_.linear.width());
  planner.buffers().need_after_gather(BufferName::gathered, config_.channels());
  output_ = ResidualOutput(planner, config, index,
                           {.linear = "ssm_out",
                            .k = width_,
                            .norm = config.layer(index).graph.mixer_post_norm,
                            .columns = value_heads_.times(config_.value_dim)});

  inputs_.append(mix_, &Buffers::hidden, &Buffers::projected);
  mix_.push_back({std::string(CausalConv::name), [this](const Step& step) { convolve(step); }});
  mix_.push_back({std::string(GatedDeltaNet::name), [this](const Step& step) { scan(step); }});
  mix_.push_back({std::string(OutputGate::name), [this](const Step& step) { gate(step); }});
  output_.append(project_);
}

/// A rank has some key heads, and the value heads that read these.
void DeltaNetMixer::take_share(const Planner& planner, const DeltaNetConfig& all, int index) {
  key_heads_ = planner.own(index, all.key_heads, "key heads");
  const std::int64_t each = all.value_heads / all.key_heads;
  const Selection keys = Selection::run(key_heads_, all.key_heads);
  value_heads_ = keys.times(each);
  if (all.tiled && !keys.whole()) {
    value_heads_ = stacked(std::vector<StackedPart>(static_cast<std::size_t>(each), {keys, all.key_heads}));
  }
  config_.key_heads = static_cast<std::int32_t>(key_heads_.count);
  config_.value_heads = static_cast<std::int32_t>(key_heads_.count * each);
  const StackedPart key_rows{keys.times(all.key_dim), std::int64_t{all.key_heads} * all.key_dim};
  channels_ = stacked(std::vector<StackedPart>{key_rows, key_rows, {value_heads_.times(all.value_dim), all.values()}});
}

/// Files store the rows of one key head side by side (ssm_in, ssm_ba), or each kind of rows in a tensor of its own.
void DeltaNetMixer::plan_projections(Planner& planner, const ModelConfig& config, int index) {
  const auto name = [index](std::string_view part) { return block_tensor(index, part); };
  const std::int64_t all_key_heads = config.layer(index).delta_net.key_heads;
  const std::int64_t heads = config_.value_heads;
  const std::int64_t heads_each = heads / config_.key_heads;
  const std::int64_t values_each = heads_each * config_.value_dim;
  std::vector<LinearName> names;
  if (planner.weights().has_tensor(name("ssm_in.weight"))) {
    const std::int64_t parts[] = {config_.key_dim, config_.key_dim, values_each, values_each};
    names.push_back({.name = name("ssm_in"),
                     .n = config_.channels() + config_.values(),
                     .rows = Selection::grouped(all_key_heads, key_heads_, parts)});
  } else {
    names.push_back({.name = name("attn_qkv"), .n = config_.channels(), .rows = channels_});
    names.push_back({.name = name("attn_gate"), .n = config_.values(), .rows = value_heads_.times(config_.value_dim)});
  }
  if (planner.weights().has_tensor(name("ssm_ba.weight"))) {
    const std::int64_t parts[] = {heads_each, heads_each};
    names.push_back({.name = name("ssm_ba"), .n = 2 * heads, .rows = Selection::grouped(all_key_heads, key_heads_, parts)});
  } else {
    names.push_back({.name = name("ssm_beta"), .n = heads, .rows = value_heads_});
    names.push_back({.name = name("ssm_alpha"), .n = heads, .rows = value_heads_});
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
  conv_weight_ = planner.floats(name("ssm_conv1d.weight"), {conv.channels, conv.taps}, channels_);
  rate_ = planner.floats(name("ssm_a"), {config_.value_heads}, value_heads_);
  step_bias_ = planner.floats(name("ssm_dt.bias"), {config_.value_heads}, value_heads_);
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
