#include "models/parts/mamba_mixer.h"

#include <algorithm>
#include <string>
#include <string_view>

namespace rocmforge {
namespace {
std::size_t floats(std::int64_t count) { return static_cast<std::size_t>(count) * sizeof(float); }
}  // namespace

// A row of Buffers::projected is [x | z]. Once x is convolved, its place is that of the time steps. Buffers::gathered has
// the outputs, the convolved rows and the rows [t | B | C].

MambaMixer::MambaMixer(Planner& planner, const ModelConfig& config, int index) : config_(config.layer(index).mamba) {
  const Range own = planner.own(index, config_.channels, "channels");
  channels_ = Selection::run(own, config_.channels);
  config_.channels = static_cast<std::int32_t>(own.count);
  width_ = own.count;
  plan_inputs(planner, config, index);
  plan_norms(planner, config, index);
  plan_scan(planner, index);
  planner.buffers().need(BufferName::projected, 2 * width_);
  planner.buffers().need_after_gather(BufferName::gathered, 2 * width_ + config_.selected());
  output_ = ResidualOutput(
      planner, config, index,
      {.linear = "ssm_out", .k = width_, .norm = config.layer(index).graph.mixer_post_norm, .columns = channels_});
  add_operations();
}

void MambaMixer::plan_inputs(Planner& planner, const ModelConfig& config, int index) {
  const auto name = [index](std::string_view part) { return block_tensor(index, part); };
  const std::int64_t all = config.layer(index).mamba.channels;
  const Selection rows = stacked(std::vector<StackedPart>(2, {channels_, all}));
  inputs_ = planner.fused_linear(name("ssm_in"), block_norm(config, index, config.layer(index).graph.mixer_norm),
                                 {{.name = name("ssm_in"), .n = 2 * width_, .rows = rows}}, config.hidden);
  const CausalConv::Spec conv{.channels = width_, .taps = config_.taps, .silu = true};
  conv_weight_ = planner.floats(name("ssm_conv1d.weight"), {conv.channels, conv.taps}, channels_);
  if (planner.weights().has_tensor(name("ssm_conv1d.bias"))) {
    conv_bias_ = planner.floats(name("ssm_conv1d.bias"), {conv.channels}, channels_);
  }
  conv_ = planner.resolve<CausalConv>(conv);
  conv_state_ = planner.add_state(floats(conv.state_elems()));
}

void MambaMixer::plan_norms(Planner& planner, const ModelConfig& config, int index) {
  const std::int64_t sizes[] = {config_.time_rank, config_.state_size, config_.state_size};
  if (config_.norms == MambaNorms::weighted) {
    constexpr std::string_view names[] = {"ssm_dt_norm", "ssm_b_norm", "ssm_c_norm"};
    for (int i = 0; i < 3; ++i) {
      norms_.push_back(planner.norm({.name = block_tensor(index, names[i]), .eps = config.norm_eps}, sizes[i]));
    }
  } else if (config_.norms == MambaNorms::plain) {
    ones_.assign(static_cast<std::size_t>(std::max(config_.time_rank, config_.state_size)), 1.0f);
    for (const std::int64_t size : sizes) {
      norms_.push_back({planner.resolve<RmsNorm>({size, MambaConfig::plain_norm_eps}), planner.weights().constants(ones_)});
    }
  }
}

void MambaMixer::plan_scan(Planner& planner, int index) {
  const auto name = [index](std::string_view part) { return block_tensor(index, part); };
  const bool shared = !channels_.whole();
  selection_ = planner.linear(
      name("ssm_x"), {{.name = name("ssm_x"), .n = config_.selected(), .columns = channels_, .summed = shared}}, width_);
  if (shared) {
    selection_sum_ = planner.rank_sum(config_.selected());
  }
  steps_ = planner.linear(name("ssm_dt"), {{.name = name("ssm_dt"), .n = width_, .needs_bias = true, .rows = channels_}},
                          config_.time_rank);
  const SelectiveScan::Spec spec{width_, config_.state_size};
  a_ = planner.floats(name("ssm_a"), {spec.channels, spec.state_size}, channels_);
  d_ = planner.floats(name("ssm_d"), {spec.channels}, channels_);
  scan_ = planner.resolve<SelectiveScan>(spec);
  scan_state_ = planner.add_state(floats(spec.state_elems()));
}

void MambaMixer::add_operations() {
  inputs_.append(mix_, &Buffers::hidden, &Buffers::projected);
  mix_.push_back({std::string(CausalConv::name), [this](const Step& step) { convolve(step); }});
  mix_.push_back({selection_.kind(), [this](const Step& step) { select(step); }});
  if (!norms_.empty()) {
    mix_.push_back({std::string(RmsNorm::name), [this](const Step& step) { normalise(step); }});
  }
  mix_.push_back({steps_.kind(), [this](const Step& step) {
                    steps_.run_strided(step, selected(step), config_.selected(), step.buffers.projected, {}, false,
                                       2 * width_);
                  }});
  mix_.push_back({std::string(SelectiveScan::name), [this](const Step& step) { scan(step); }});
  output_.append(project_);
}

void MambaMixer::convolve(const Step& step) const {
  conv_.run({.x = step.buffers.projected,
             .x_stride = 2 * width_,
             .weight = conv_weight_->data,
             .bias = conv_bias_ != nullptr ? conv_bias_->data : nullptr,
             .states = step.states.at(conv_state_),
             .batch = step.batch,
             .out = convolved(step)},
            step);
}

void MambaMixer::select(const Step& step) const {
  if (!selection_sum_) {
    selection_.run(step, convolved(step), selected(step));
    return;
  }
  selection_.run(step, convolved(step), step.buffers.partial);
  selection_sum_->run(step, selected(step), false);
}

void MambaMixer::normalise(const Step& step) const {
  float* row = selected(step);
  for (const Norm& norm : norms_) {
    norm.run_strided(step.tokens, row, config_.selected(), step);
    row += std::get<Resolved<RmsNorm>>(norm.operation).spec.dim;
  }
}

void MambaMixer::scan(const Step& step) const {
  const float* b = selected(step) + config_.time_rank;
  scan_.run({.x = convolved(step),
             .z = step.buffers.projected + width_,
             .dt = step.buffers.projected,
             .stride = 2 * width_,
             .b = b,
             .c = b + config_.state_size,
             .bc_stride = config_.selected(),
             .a = a_->data,
             .d = d_->data,
             .states = step.states.at(scan_state_),
             .batch = step.batch,
             .out = step.buffers.gathered},
            step);
}

}  // namespace rocmforge
