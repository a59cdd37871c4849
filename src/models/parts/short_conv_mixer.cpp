#include "models/parts/short_conv_mixer.h"

namespace rocmforge {

ShortConvMixer::ShortConvMixer(Planner& planner, const ModelConfig& config, int index) {
  const LayerConfig& layer = config.layer(index);
  const CausalConv::Spec spec{.channels = config.hidden, .taps = layer.short_conv_taps, .gates = true};
  const std::string in = block_tensor(index, "shortconv.in_proj");
  width_ = config.hidden;
  inputs_ = planner.fused_linear(in, block_norm(config, index, layer.graph.mixer_norm), {{in, 3 * width_}}, width_);
  weight_ = planner.floats(block_tensor(index, "shortconv.conv.weight"), {spec.channels, spec.taps});
  conv_ = planner.resolve<CausalConv>(spec);
  state_offset_ = planner.add_state(static_cast<std::size_t>(spec.state_elems()) * sizeof(float));
  planner.buffers().need(BufferName::projected, 3 * width_);
  planner.buffers().need_after_gather(BufferName::gathered, width_);
  output_ = ResidualOutput(planner, config, index, {"shortconv.out_proj", width_, layer.graph.mixer_post_norm});

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
