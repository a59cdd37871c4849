#pragma once

#include <cstdint>
#include <vector>

#include "models/parts/linear.h"
#include "models/parts/operation.h"
#include "models/plan/planner.h"

namespace rocmforge {

/// Copies the rows of a step to one of several places that each token has in wider rows: [tokens, dim] to place `place` of
/// [tokens, places, dim]. Not moved once it has been appended.
class PlacedRows {
 public:
  PlacedRows(Planner& planner, std::int64_t dim, std::int32_t place, std::int32_t places);

  /// Adds the operation, between two buffers of a step.
  void append(Operations& operations, float* Buffers::*from, float* Buffers::*to) const;

 private:
  Resolved<OverwriteRows> copy_;
  std::vector<std::int32_t> own_;  ///< row of each token
  std::vector<std::int32_t> wide_;
  const IntegerVector* from_;
  const IntegerVector* to_;
};

}  // namespace rocmforge
