#pragma once

#include <cstdint>

#include "models/parts/operation.h"
#include "models/plan/planner.h"
#include "ops/sample.h"

namespace rocmforge {

/// The draw of each wanted row's next token, from Buffers::logits to Buffers::sampled. Not moved once it has returned
/// operations.
class TokenDraw {
 public:
  TokenDraw(Planner& planner, std::int32_t vocab);

  [[nodiscard]] const Operations& operations() const { return operations_; }

 private:
  Resolved<SampleTokens> sample_;
  Operations operations_;
};

}  // namespace rocmforge
