#pragma once

#include <cstdint>

#include "models/adapters/control_vectors.h"
#include "models/parts/linear.h"
#include "models/parts/operation.h"
#include "models/plan/planner.h"

namespace rocmforge {

/// Adds the direction of a control vector to every row of the residual stream, behind a layer. Not moved once it has been
/// appended.
class ControlPart {
 public:
  /// The vectors outlive the plan, and have a direction behind the layer.
  ControlPart(Planner& planner, const ControlVectors& vectors, int layer);

  /// Adds the operation, on Buffers::hidden.
  void append(Operations& operations) const;

 private:
  Resolved<OverwriteRows> add_;
  const WeightVector* direction_;
  const IntegerVector* rows_;   ///< 0, 1, 2, ...: each row of a step
  const IntegerVector* zeros_;  ///< as many: all get the one row of the direction
};

}  // namespace rocmforge
