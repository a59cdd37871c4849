#include "models/parts/short_conv_mixer.h"

#include <string>
#include <vector>

namespace rocmforge {

ShortConvMixer::ShortConvMixer(Planner& planner, const ModelConfig& config, int index) {
  const LayerConfig& layer = config.layer(index);
  const std::string in = block_tensor(index, "shortconv.in_proj");
  const Range own = planner.own(index, config.hidden, "channels");
  const Selection channels = Selection::run(own, config.hidden);
  width_ = own.count;
  const CausalConv::Spec spec{.channels = width_, .taps = layer.short_conv_taps, .gates = true};
  const std::vector<StackedPart> three(3, {channels, config.hidden});
  inputs_ = planner.fused_linear(in, block_norm(config, index, layer.graph.mixer_norm),
                                 {{.name = in, .n = 3 * width_, .rows = stacked(three)}}, config.hidden);
  weight_ = planner.floats(block_tensor(index, "shortconv.conv.weight"), {spec.channels, spec.taps}, channels);
  conv_ = planner.resolve<CausalConv>(spec);
  state_offset_ = planner.add_state(static_cast<std::size_t>(spec.state_elems()) * sizeof(float));
  planner.buffers().need(BufferName::projected, 3 * width_);
  planner.buffers().need_after_gather(BufferName::gathered, width_);
  output_ = ResidualOutput(
      planner, config, index,
      {.linear = "shortconv.out_proj", .k = width_, .norm = layer.graph.mixer_post_norm, .columns = channels});

  inputs_.append(mix_, &Buffers::hidden, &Buffers::projected);
  mix_.push_back({std::string(CausalConv::name), [this](const Step& step) { convolve(step); }});
  output_.append(project_);
}

void ShortConvMixer::convolve(const Step& step) const {
  conv_.run({.x = step.buffers.projected,
             .x_stride = 3 * width_,
             .weight = weight_->data,
             .states = step.states.at(state_offset_),
             .batch = step.batch,
             .out = step.buffers.gathered},
            step);
}

}  // namespace rocmforge
