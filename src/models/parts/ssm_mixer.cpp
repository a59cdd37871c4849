#include "models/parts/ssm_mixer.h"

#include <string>
#include <string_view>
#include <vector>

namespace rocmforge {

SsmMixer::SsmMixer(Planner& planner, const ModelConfig& config, int index, float* Buffers::*into)
    : config_(config.layer(index).ssm) {
  const SsmConfig& all = config.layer(index).ssm;
  const BlockGraph& graph = config.layer(index).graph;
  const auto name = [index](std::string_view part) { return block_tensor(index, part); };
  const auto floats = [](std::int64_t count) { return static_cast<std::size_t>(count) * sizeof(float); };
  take_share(planner, all, index);
  const SsmScan::Spec scan_spec{config_.heads, config_.head_dim, config_.state_size, config_.groups};
  const CausalConv::Spec conv_spec{.channels = config_.channels(), .taps = config_.taps, .silu = true};
  width_ = config_.inner();
  const StackedPart x{heads_.times(all.head_dim), all.inner()};
  const StackedPart group{groups_.times(all.state_size), std::int64_t{all.groups} * all.state_size};
  const Selection rows = stacked(std::vector<StackedPart>{x, x, group, group, {heads_, all.heads}});
  const Selection channels = stacked(std::vector<StackedPart>{x, group, group});

  inputs_ = planner.fused_linear(name("ssm_in"), block_norm(config, index, graph.mixer_norm),
                                 {{.name = name("ssm_in"), .n = config_.projected_width(), .rows = rows}}, config.hidden);
  conv_weight_ = planner.floats(name("ssm_conv1d.weight"), {conv_spec.channels, conv_spec.taps}, channels);
  conv_bias_ = planner.weights().has_tensor(name("ssm_conv1d.bias"))
                   ? planner.floats(name("ssm_conv1d.bias"), {conv_spec.channels}, channels)
                   : nullptr;
  conv_ = planner.resolve<CausalConv>(conv_spec);
  conv_state_ = planner.add_state(floats(conv_spec.state_elems()));
  a_ = planner.floats(name("ssm_a"), {scan_spec.heads, 1}, heads_);
  d_ = planner.floats(name("ssm_d"), {scan_spec.heads, 1}, heads_);
  dt_bias_ = planner.floats(name("ssm_dt.bias"), {scan_spec.heads}, heads_);
  scan_ = planner.resolve<SsmScan>(scan_spec);
  scan_state_ = planner.add_state(floats(scan_spec.state_elems()));
  planner.buffers().need(BufferName::projected, config_.projected_width());
  planner.buffers().need_after_gather(BufferName::gathered, width_ + config_.channels());
  if (all.norm) {
    plan_norm(planner, config, index);
  }
  output_ = ResidualOutput(planner, config, index,
                           {.linear = "ssm_out",
                            .k = width_,
                            .norm = graph.mixer_post_norm,
                            .columns = heads_.times(all.head_dim),
                            .into = into});

  inputs_.append(mix_, &Buffers::hidden, &Buffers::projected);
  mix_.push_back({std::string(CausalConv::name), [this](const Step& step) { convolve(step); }});
  mix_.push_back({std::string(SsmScan::name), [this](const Step& step) { scan(step); }});
  if (all.norm) {
    mix_.push_back({std::string(RmsNorm::name),
                    [this](const Step& step) { widths_.empty() ? normalise(step) : normalise_together(step); }});
  }
  output_.append(project_);
}

void SsmMixer::take_share(const Planner& planner, const SsmConfig& all, int index) {
  const Range heads = planner.own(index, all.heads, "heads");
  const Range groups = planner.own_or_common(index, all.groups, "groups of heads");
  heads_ = Selection::run(heads, all.heads);
  groups_ = Selection::run(groups, all.groups);
  config_.heads = static_cast<std::int32_t>(heads.count);
  config_.groups = static_cast<std::int32_t>(groups.count);
  first_column_ = heads.first * all.head_dim;
}

void SsmMixer::plan_norm(Planner& planner, const ModelConfig& config, int index) {
  const SsmConfig& all = config.layer(index).ssm;
  const std::string name = block_tensor(index, "ssm_norm.weight");
  const std::int64_t group = all.inner() / all.groups;
  if (const std::int32_t ranks = planner.share().ranks; all.groups < ranks) {
    widths_.assign(static_cast<std::size_t>(ranks), width_);
    copy_ = planner.resolve<CopyHeads>({static_cast<std::int32_t>(all.inner()), static_cast<std::int32_t>(width_)});
    planner.buffers().need(BufferName::projected, all.inner());
    norm_weight_ = planner.floats(name, {all.groups, group});
    norm_ = planner.resolve<RmsNorm>({group, config.norm_eps, all.groups});
    return;
  }
  norm_weight_ = planner.floats(name, {config_.groups, group}, groups_);
  norm_ = planner.resolve<RmsNorm>({group, config.norm_eps, config_.groups});
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

void SsmMixer::normalise_together(const Step& step) const {
  float* const all = step.buffers.projected;  // whose content is not needed any more
  step.communicator->gather(step.buffers.gathered, step.tokens, widths_, Communicator::Receivers::all, all);
  norm_.run({.x = all, .rows = step.tokens * norm_.spec.groups, .weight = norm_weight_->data, .out = all}, step);
  copy_.run({.x = all + first_column_, .heads = 1, .tokens = step.tokens, .out = step.buffers.gathered, .out_heads = 1},
            step);
}

}  // namespace rocmforge
