#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ops/batch_plan.h"

namespace rocmforge {

/// Neighbouring rows of a step with the same adapters.
struct AdapterRun {
  std::int32_t first = 0;
  std::int32_t count = 0;
  std::span<const AdapterUse> uses{};
};

/// The rows of a step that adapters change, ascending: among its tokens, among the rows whose logits are wanted, and among
/// those whose hidden states are.
class AdapterRows {
 public:
  AdapterRows() = default;
  explicit AdapterRows(const BatchPlan& plan);

  [[nodiscard]] bool any() const { return !tokens_.empty(); }
  [[nodiscard]] std::span<const AdapterRun> tokens() const { return tokens_; }
  [[nodiscard]] std::span<const AdapterRun> logits() const { return logits_; }
  [[nodiscard]] std::span<const AdapterRun> hidden() const { return hidden_; }

 private:
  std::vector<AdapterRun> tokens_;
  std::vector<AdapterRun> logits_;
  std::vector<AdapterRun> hidden_;
};

}  // namespace rocmforge
