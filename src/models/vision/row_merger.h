#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "models/parts/operation.h"
#include "models/plan/planner.h"
#include "models/vision/row_places.h"
#include "models/vision/vision_config.h"

namespace rocmforge {

/// Makes a slice of each row for the text model of the states of its patches (Projector). Not moved.
class RowMerger {
 public:
  RowMerger() = default;
  virtual ~RowMerger() = default;
  RowMerger(const RowMerger&) = delete;
  RowMerger& operator=(const RowMerger&) = delete;

  /// The slice that belongs to the states behind the last layer, for steps of up to `rows`.
  static std::unique_ptr<RowMerger> of_output(Planner& planner, const VisionConfig& config, std::int64_t rows);
  /// The one that belongs to the states behind `layer`, one of VisionConfig::deepstack.
  static std::unique_ptr<RowMerger> of_layer(Planner& planner, const VisionConfig& config, std::int32_t layer,
                                             std::int64_t rows);

  /// From Buffers::hidden of all patches, which are those of Step::tokens squares, to `out`. Where rows are placed
  /// (VisionConfig::places_rows), StepArrays::overwritten_rows says where. Buffers other than the hidden states are
  /// overwritten.
  virtual void run(const Step& step, const MergedRows& out) const = 0;
};

}  // namespace rocmforge
