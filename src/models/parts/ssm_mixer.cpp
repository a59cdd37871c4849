#include "models/parts/ssm_mixer.h"

namespace rocmforge {

SsmMixer::SsmMixer(Planner& planner, const ModelConfig& config, int index) : config_(config.layer(index).ssm) {
  const BlockGraph& graph = config.layer(index).graph;
  const auto name = [index](std::string_view part) { return block_tensor(index, part); };
  const auto floats = [](std::int64_t count) { return static_cast<std::size_t>(count) * sizeof(float); };
  const SsmScan::Spec scan_spec{config_.heads, config_.head_dim, config_.state_size, config_.groups};
  const CausalConv::Spec conv_spec{.channels = config_.channels(), .taps = config_.taps, .silu = true};
  width_ = config_.inner();

  inputs_ = planner.fused_linear(name("ssm_in"), block_norm(config, index, graph.mixer_norm),
                                 {{name("ssm_in"), config_.projected_width()}}, config.hidden);
  conv_weight_ = planner.floats(name("ssm_conv1d.weight"), {conv_spec.channels, conv_spec.taps});
  conv_bias_ = planner.weights().has_tensor(name("ssm_conv1d.bias"))
                   ? planner.vector(name("ssm_conv1d.bias"), conv_spec.channels)
                   : nullptr;
  conv_ = planner.resolve<CausalConv>(conv_spec);
  conv_state_ = planner.add_state(floats(conv_spec.state_elems()));
  a_ = planner.floats(name("ssm_a"), {scan_spec.heads, 1});
  d_ = planner.floats(name("ssm_d"), {scan_spec.heads, 1});
  dt_bias_ = planner.vector(name("ssm_dt.bias"), scan_spec.heads);
  scan_ = planner.resolve<SsmScan>(scan_spec);
  scan_state_ = planner.add_state(floats(scan_spec.state_elems()));
  const std::int64_t group = width_ / scan_spec.groups;
  norm_weight_ = planner.floats(name("ssm_norm.weight"), {scan_spec.groups, group});
  norm_ = planner.resolve<RmsNorm>({group, config.norm_eps, scan_spec.groups});
  planner.buffers().need(BufferName::projected, config_.projected_width());
  planner.buffers().need_after_gather(BufferName::gathered, width_ + config_.channels());
  output_ = ResidualOutput(planner, config, index, {"ssm_out", width_, graph.mixer_post_norm});

  inputs_.append(mix_, &Buffers::hidden, &Buffers::projected);
  mix_.push_back({std::string(CausalConv::name), [this](const Step& step) { convolve(step); }});
  mix_.push_back({std::string(SsmScan::name), [this](const Step& step) { scan(step); }});
  mix_.push_back({std::string(RmsNorm::name), [this](const Step& step) { normalise(step); }});
  output_.append(project_);
}

void SsmMixer::convolve(const Step& step) const {
  conv_.run({.x = step.buffers.projected + width_,
             .x_stride = config_.projected_width(),
             .weight = conv_weight_->data,
             .bias = conv_bias_ != nullptr ? conv_bias_->data : nullptr,
             .states = step.states.at(conv_state_),
             .batch = step.batch,
             .out = convolved(step)},
            step);
}

void SsmMixer::scan(const Step& step) const {
  scan_.run({.x = convolved(step),
             .z = step.buffers.projected,
             .dt = step.buffers.projected + width_ + config_.channels(),
             .stride = config_.projected_width(),
             .a = a_->data,
             .d = d_->data,
             .dt_bias = dt_bias_->data,
             .states = step.states.at(scan_state_),
             .batch = step.batch,
             .out = step.buffers.gathered,
             .workspace = step.buffers.scratch},
            step);
}

void SsmMixer::normalise(const Step& step) const {
  norm_.run({.x = step.buffers.gathered,
             .rows = step.tokens * config_.groups,
             .weight = norm_weight_->data,
             .out = step.buffers.gathered},
            step);
}

}  // namespace rocmforge
