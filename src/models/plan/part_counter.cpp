#include "models/plan/part_counter.h"

#include <algorithm>

namespace rocmforge {

PartCounter::Totals PartCounter::totals() const {
  Totals totals{.weights = plan_->weights.packed_bytes(true),
                .experts = plan_->weights.expert_bytes(true),
                .read = plan_->report.bytes_per_token(),
                .state = plan_->memory.state_bytes(Side::device) + plan_->memory.state_bytes(Side::host)};
  if (plan_->host) {
    totals.weights += plan_->host->weights.packed_bytes(true);
    totals.experts += plan_->host->weights.expert_bytes(true);
  }
  return totals;
}

ModelParts::Layer PartCounter::counted() const {
  const Totals after = totals();
  ModelParts::Layer counted;
  counted.experts.weights = after.experts - before_.experts;
  counted.own.weights = after.weights - before_.weights - counted.experts.weights;
  counted.own.read = after.read - before_.read;
  counted.state = after.state - before_.state;
  return counted;
}

ModelParts::Layer PartCounter::counted(const ModelConfig& config, int index, const Block& block) const {
  ModelParts::Layer layer = counted();
  const LayerConfig& own = config.layer(index);
  if (const ExpertConfig& experts = own.feed_forward.experts; experts.count > 0) {
    layer.experts.read =
        layer.experts.weights / static_cast<std::size_t>(experts.count) * static_cast<std::size_t>(experts.used);
    layer.experts.read = std::min(layer.experts.read, layer.own.read);
    layer.own.read -= layer.experts.read;
  }
  if (block.has_pages() && block.keeps()) {
    layer.plane = block.kv_place();
  }
  if (own.has_mixer() && own.mixer == MixerKind::attention && !own.attention.has_keys()) {
    layer.keys_of = own.attention.keys_of;
  }
  return layer;
}

}  // namespace rocmforge
