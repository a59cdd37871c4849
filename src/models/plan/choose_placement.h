#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/plan/placement.h"

namespace rocmforge {

/// What a model's parts need and what each side has, in integers: all that the choice of a Placement depends on.
struct PlacementNeeds {
  /// Bytes on each Side. The sides may keep a weight in different layouts.
  struct Bytes {
    std::int64_t device = 0;
    std::int64_t host = 0;

    [[nodiscard]] std::int64_t at(Side side) const { return side == Side::device ? device : host; }
  };
  struct Part {
    Bytes weights{};
    Bytes read{};  ///< in a decode step of one token
  };
  struct Layer {
    Part own{};        ///< without routed experts
    Part experts{};    ///< routed ones, or nothing
    Bytes memory{};    ///< K and V of all positions, and all slots of state
    int keys_of = -1;  ///< the layer whose K and V it reads: the two are on one side
  };
  Part embedding{};
  Part output{};
  std::vector<Layer> layers{};
  Bytes workspace{};

  Bytes available{};
  /// Memory bandwidth of each side, and the time for which a step stops where its rows cross from one side to the other.
  double device_bytes_per_second = 0.0;
  double host_bytes_per_second = 0.0;
  double crossing_seconds = 0.0;
};

/// What the user has decided. What is left empty is chosen.
struct PlacementWishes {
  /// The last layers, which the device computes. More than there are: all.
  std::optional<std::int32_t> gpu_layers{};
  /// The first layers, whose routed experts the host computes.
  std::optional<std::int32_t> cpu_experts{};
  /// Sides of single parts; they go before the other two.
  std::optional<Side> embedding{};
  std::optional<Side> output{};
  struct Layer {
    std::optional<Side> side{};
    std::optional<Side> experts{};
  };
  std::vector<Layer> layers{};  ///< empty, or one for each layer

  [[nodiscard]] bool any() const { return gpu_layers || cpu_experts || embedding || output || !layers.empty(); }
};

struct ChosenPlacement {
  Placement placement;
  PlacementNeeds::Bytes bytes;  ///< that it needs
  double seconds = 0.0;         ///< of a decode step of one token at least: bytes read by bandwidth, and crossings
  bool fits = false;

  /// "30 of 48 layers on the GPU, experts of 40 layers on the CPU"
  [[nodiscard]] std::string describe(const PlacementNeeds& needs) const;
};

/// Of the placements that agree with the wishes and fit, the one with the least time. Where none fits: the one that lacks
/// the fewest bytes. Considered are the first layers on the host, the experts of more first layers on the host beside the
/// device, and the embedding there.
ChosenPlacement choose_placement(const PlacementNeeds& needs, const PlacementWishes& wishes);

/// What `placement` needs and takes.
ChosenPlacement measure_placement(const PlacementNeeds& needs, Placement placement);

}  // namespace rocmforge
