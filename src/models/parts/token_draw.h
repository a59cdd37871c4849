#pragma once

#include <cstdint>

#include "models/parts/operation.h"
#include "models/plan/planner.h"
#include "ops/sample.h"

namespace rocmforge {

/// The draw of each wanted row's next token, from Buffers::logits to Buffers::sampled. Of several ranks the first draws, and
/// tells the others. Not moved once it has returned operations.
class TokenDraw {
 public:
  /// `communicator` is null where there is one rank.
  TokenDraw(Planner& planner, std::int32_t vocab, const Communicator* communicator);

  [[nodiscard]] const Operations& operations() const { return operations_; }

 private:
  void add_draw();

  Resolved<SampleTokens> sample_;
  Operations operations_;
};

}  // namespace rocmforge
