#include "models/parts/two_mixers.h"

#include <string>

namespace rocmforge {

TwoMixers::TwoMixers(Planner& planner, const ModelConfig& config, int index)
    : ssm_(planner, config, index, &Buffers::sums),
      attention_(planner, config, index, {}, &Buffers::projected),
      add_(planner.resolve_for_width<ResidualAdd>({}, 3 * std::int64_t{config.hidden})),
      scale_(config.layer(index).graph.residual_scale) {
  width_ = config.hidden;
  kv_place_ = attention_.kv_place();
  planner.buffers().need(BufferName::sums, config.hidden);
  planner.buffers().need_after_gather(BufferName::gathered, config.hidden);
  for (const Mixer* mixer : {static_cast<const Mixer*>(&ssm_), static_cast<const Mixer*>(&attention_)}) {
    mix_.insert(mix_.end(), mixer->mix().begin(), mixer->mix().end());
    mix_.insert(mix_.end(), mixer->project().begin(), mixer->project().end());
  }
  mix_.push_back({std::string(ResidualAdd::name), [this](const Step& step) { add(step); }});
  project_.push_back({std::string(ResidualAdd::name), [this](const Step& step) { add_to_stream(step); }});
}

void TwoMixers::add(const Step& step) const {
  add_.run(
      {.a = step.buffers.sums, .b = step.buffers.projected, .count = step.tokens * width_, .out = step.buffers.gathered},
      step);
}

void TwoMixers::add_to_stream(const Step& step) const {
  add_.run({.a = step.buffers.hidden,
            .b = step.buffers.gathered,
            .count = step.tokens * width_,
            .out = step.buffers.hidden,
            .factor = scale_},
           step);
}

}  // namespace rocmforge
