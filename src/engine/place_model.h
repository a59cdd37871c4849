#pragma once

#include <optional>
#include <string>

#include "engine/engine.h"
#include "models/plan/choose_placement.h"

namespace rocmforge {

struct PlannedModel;

/// A choice of the sides of a model's parts.
struct PlannedPlacement {
  PlacementNeeds needs;
  ChosenPlacement chosen;
  std::string why;  ///< "the model does not fit into the memory of the GPU"

  /// One line: the split, why, the memory and the time.
  [[nodiscard]] std::string describe() const;
};

/// Bytes a second that the memory of `device` gives, as it was measured (CeilingCache), or as is usual for this side.
double memory_bandwidth(const std::filesystem::path& ceilings, const DeviceInfo& device, Side side);

/// Whether models can be split over this device and the host: a GPU with memory of its own.
bool can_split(const DeviceInfo& device, const PlacementOptions& options);

/// What the user has decided, of the file of a model with that many layers. Throws Error for overrides that can't be kept.
PlacementWishes placement_wishes(const PlacementOptions& options, const GgufFile& file, std::int32_t layers);

/// The needs of `planned`, whose model is planned with all parts on its device, with `options` for that model.
PlacementNeeds placement_needs(const PlannedModel& planned, const ModelOptions& options, const PlacementOptions& placement,
                               const std::filesystem::path& ceilings);

}  // namespace rocmforge
