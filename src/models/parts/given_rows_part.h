#pragma once

#include <cstdint>

#include "models/parts/operation.h"
#include "models/plan/planner.h"

namespace rocmforge {

/// What a model does with the rows that a step is given (BatchPlan::given), each of one or more slices as wide as the hidden
/// state: slice 0 replaces the embeddings of its tokens, slice i > 0 is added to their states behind layer i - 1
/// (deepstack). Not moved once it has been appended.
class GivenRowsPart {
 public:
  GivenRowsPart(Planner& planner, std::int64_t hidden, std::int32_t slice)
      : overwrite_(planner.resolve_for_prompts<OverwriteRows>({hidden})), slice_(slice) {}

  /// Adds the operation, on Buffers::hidden. It does nothing in steps without such rows.
  void append(Operations& operations) const;

 private:
  Resolved<OverwriteRows> overwrite_;
  std::int32_t slice_;
};

}  // namespace rocmforge
