#include "models/plan/buffer_plan.h"

#include <algorithm>

#include "base/error.h"

namespace rocmforge {
namespace {

/// The alignment that GPU kernels may expect of every buffer.
constexpr std::size_t alignment = 256;
constexpr std::int64_t element_bytes = 4;

}  // namespace

void BufferPlan::need_rows(BufferName name, std::int64_t rows, std::int64_t width) {
  need_bytes(name, static_cast<std::size_t>(rows * width * element_bytes));
}

void BufferPlan::need_bytes(BufferName name, std::size_t size_bytes) {
  std::size_t& size = sizes_[static_cast<std::size_t>(name)];
  size = std::max(size, size_bytes);
}

void BufferPlan::need_after_gather(BufferName name, std::int64_t width) {
  check(name == BufferName::projected || name == BufferName::gathered, "these two buffers change places");
  need(name, width);
  need(name == BufferName::projected ? BufferName::gathered : BufferName::projected, (width + 1) / 2);
}

std::pair<BufferPlan::Sizes, std::size_t> BufferPlan::lay_out() const {
  Sizes offsets{};
  std::size_t used = 0;
  for (std::size_t name = 0; name < sizes_.size(); ++name) {
    offsets[name] = used;
    used += (sizes_[name] + alignment - 1) / alignment * alignment;
  }
  return {offsets, used};
}

std::size_t BufferPlan::size_bytes() const { return lay_out().second; }

Buffers BufferPlan::place(std::byte* workspace) const {
  const Sizes offsets = lay_out().first;
  const auto at = [&](BufferName name) { return workspace + offsets[static_cast<std::size_t>(name)]; };
  const auto floats = [&](BufferName name) { return reinterpret_cast<float*>(at(name)); };
  const auto ids = [&](BufferName name) { return reinterpret_cast<std::int32_t*>(at(name)); };
  return {.hidden = floats(BufferName::hidden),
          .sums = floats(BufferName::sums),
          .partial = floats(BufferName::partial),
          .normed = floats(BufferName::normed),
          .projected = floats(BufferName::projected),
          .gathered = floats(BufferName::gathered),
          .per_layer = floats(BufferName::per_layer),
          .features = floats(BufferName::features),
          .streams = floats(BufferName::streams),
          .experts = ids(BufferName::experts),
          .expert_weights = floats(BufferName::expert_weights),
          .route_state = at(BufferName::route_state),
          .slot_order = at(BufferName::slot_order),
          .own_logits = floats(BufferName::own_logits),
          .logits = floats(BufferName::logits),
          .scratch = at(BufferName::scratch),
          .sampled = ids(BufferName::sampled),
          .probabilities = floats(BufferName::probabilities),
          .attention_states = {at(BufferName::prompt_attention_state), at(BufferName::single_attention_state)}};
}

Buffers BufferPlan::behind(Buffers buffers, std::int64_t row) const {
  const auto move = [&](BufferName name, auto*& buffer) {
    const auto row_bytes = static_cast<std::int64_t>(sizes_[static_cast<std::size_t>(name)]) / tokens_;
    buffer += row * (row_bytes / element_bytes);
  };
  move(BufferName::hidden, buffers.hidden);
  move(BufferName::sums, buffers.sums);
  move(BufferName::partial, buffers.partial);
  move(BufferName::normed, buffers.normed);
  move(BufferName::projected, buffers.projected);
  move(BufferName::gathered, buffers.gathered);
  move(BufferName::per_layer, buffers.per_layer);
  move(BufferName::features, buffers.features);
  move(BufferName::streams, buffers.streams);
  move(BufferName::experts, buffers.experts);
  move(BufferName::expert_weights, buffers.expert_weights);
  return buffers;
}

}  // namespace rocmforge
