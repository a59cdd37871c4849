#pragma once

#include <cstddef>
#include <vector>

#include "device/devices.h"

namespace rocmforge {

/// Which side computes each part of a model, and holds its weights and its part of a sequence's memory. Decided before a
/// byte of the weights is loaded.
struct Placement {
  struct Layer {
    Side side = Side::device;
    /// Of the routed experts, which may lie on the host beside a layer of the device. Their router stays with the layer.
    Side experts = Side::device;

    friend bool operator==(const Layer&, const Layer&) = default;
  };
  Side embedding = Side::device;
  Side output = Side::device;   ///< the final norm, the head and the draw
  std::vector<Layer> layers{};  ///< empty: all on the device

  [[nodiscard]] Layer layer(int index) const {
    return layers.empty() ? Layer{} : layers.at(static_cast<std::size_t>(index));
  }
  /// That of the layers from `first` to `end` alone, with the embedding before the first layer, and the output where they
  /// are the last ones: all else counts as on the device.
  [[nodiscard]] Placement of_layers(int first, int end, bool last) const;
  /// Whether any part is on the host.
  [[nodiscard]] bool split() const;
  friend bool operator==(const Placement&, const Placement&) = default;
};

}  // namespace rocmforge
