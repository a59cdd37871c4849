#include "models/plan/choose_placement.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace rocmforge {
namespace {

/// Adds up what the parts of a placement need and read.
class Sum {
 public:
  explicit Sum(const PlacementNeeds& needs) : needs_(&needs), bytes_(needs.workspace) {}

  void add(const PlacementNeeds::Part& part, Side side) {
    add(part.weights, side);
    const double bandwidth = side == Side::device ? needs_->device_bytes_per_second : needs_->host_bytes_per_second;
    seconds_ += static_cast<double>(part.read.at(side)) / bandwidth;
  }
  void add(const PlacementNeeds::Bytes& bytes, Side side) {
    (side == Side::device ? bytes_.device : bytes_.host) += bytes.at(side);
  }
  void cross(int times) { seconds_ += times * needs_->crossing_seconds; }

  [[nodiscard]] const PlacementNeeds::Bytes& bytes() const { return bytes_; }
  [[nodiscard]] double seconds() const { return seconds_; }

 private:
  const PlacementNeeds* needs_;
  PlacementNeeds::Bytes bytes_;
  double seconds_ = 0.0;
};

/// The bytes that are missing.
std::int64_t shortage(const PlacementNeeds& needs, const PlacementNeeds::Bytes& bytes) {
  return std::max<std::int64_t>(0, bytes.device - needs.available.device) +
         std::max<std::int64_t>(0, bytes.host - needs.available.host);
}

/// The placement with that many first layers on the host, and the experts of that many.
Placement place(const PlacementNeeds& needs, const PlacementWishes& wishes, std::size_t host_layers,
                std::size_t host_experts, Side embedding) {
  Placement placement;
  placement.embedding = wishes.embedding.value_or(embedding);
  const std::size_t count = needs.layers.size();
  for (std::size_t i = 0; i < count; ++i) {
    const PlacementWishes::Layer wished = wishes.layers.empty() ? PlacementWishes::Layer{} : wishes.layers[i];
    Placement::Layer& layer = placement.layers.emplace_back();
    layer.side = wished.side.value_or(i < host_layers ? Side::host : Side::device);
    if (const int owner = needs.layers[i].keys_of; owner >= 0) {
      layer.side = placement.layers[static_cast<std::size_t>(owner)].side;
    }
    const bool has_experts = needs.layers[i].experts.weights.device > 0;
    layer.experts = wished.experts.value_or(has_experts && i < host_experts ? Side::host : layer.side);
    if (layer.side == Side::host) {
      layer.experts = Side::host;
    }
  }
  placement.output = wishes.output.value_or(count > 0 && host_layers >= count ? Side::host : Side::device);
  return placement;
}

bool better(const PlacementNeeds& needs, const ChosenPlacement& a, const ChosenPlacement& b) {
  if (a.fits != b.fits) {
    return a.fits;
  }
  return a.fits ? a.seconds < b.seconds : shortage(needs, a.bytes) < shortage(needs, b.bytes);
}

}  // namespace

ChosenPlacement measure_placement(const PlacementNeeds& needs, Placement placement) {
  check(placement.layers.size() == needs.layers.size(), "a placement places each layer");
  Sum sum(needs);
  sum.add(needs.embedding, placement.embedding);
  Side side = placement.embedding;
  for (std::size_t i = 0; i < placement.layers.size(); ++i) {
    const Placement::Layer& layer = placement.layers[i];
    const PlacementNeeds::Layer& own = needs.layers[i];
    sum.add(own.own, layer.side);
    sum.add(own.memory, layer.side);
    sum.add(own.experts, layer.experts);
    sum.cross(layer.side != side ? 1 : 0);
    sum.cross(layer.side != layer.experts ? 2 : 0);
    side = layer.side;
  }
  sum.add(needs.output, placement.output);
  sum.cross(placement.output != side ? 1 : 0);
  return {.placement = std::move(placement),
          .bytes = sum.bytes(),
          .seconds = sum.seconds(),
          .fits = shortage(needs, sum.bytes()) == 0};
}

ChosenPlacement choose_placement(const PlacementNeeds& needs, const PlacementWishes& wishes) {
  check(wishes.layers.empty() || wishes.layers.size() == needs.layers.size(), "a wish for each layer");
  const std::size_t count = needs.layers.size();
  const auto within = [count](std::int32_t layers) {
    return std::min(count, static_cast<std::size_t>(std::max<std::int32_t>(layers, 0)));
  };
  const std::size_t first = wishes.gpu_layers ? count - within(*wishes.gpu_layers) : 0;
  const std::size_t last = wishes.gpu_layers ? first : count;
  std::optional<ChosenPlacement> best;
  for (std::size_t host_layers = first; host_layers <= last; ++host_layers) {
    const std::size_t least = wishes.cpu_experts ? within(*wishes.cpu_experts) : host_layers;
    const std::size_t most = wishes.cpu_experts ? least : count;
    for (std::size_t host_experts = least; host_experts <= most; ++host_experts) {
      for (const Side embedding : {Side::device, Side::host}) {
        if (embedding == Side::device && host_layers > 0) {
          continue;  // the first layer reads it
        }
        ChosenPlacement chosen = measure_placement(needs, place(needs, wishes, host_layers, host_experts, embedding));
        if (!best || better(needs, chosen, *best)) {
          best = std::move(chosen);
        }
      }
    }
  }
  return *best;
}

std::string ChosenPlacement::describe(const PlacementNeeds& needs) const {
  std::size_t on_device = 0;
  std::size_t experts = 0;
  for (std::size_t i = 0; i < placement.layers.size(); ++i) {
    const Placement::Layer& layer = placement.layers[i];
    on_device += layer.side == Side::device ? 1 : 0;
    experts += layer.side == Side::device && layer.experts == Side::host && needs.layers[i].experts.weights.host > 0 ? 1 : 0;
  }
  std::string text = fmt::format("{} of {} layers on the GPU", on_device, placement.layers.size());
  if (experts > 0) {
    text += fmt::format(", the experts of {} of them on the CPU", experts);
  }
  if (placement.embedding == Side::host && !placement.layers.empty() && placement.layers[0].side == Side::device) {
    text += ", the embedding on the CPU";
  }
  if (placement.output == Side::host && on_device > 0) {
    text += ", the output on the CPU";
  }
  return text;
}

}  // namespace rocmforge
