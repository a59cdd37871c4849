#pragma once

#include <cstddef>

#include "models/parts/block.h"
#include "models/plan/model_parts.h"
#include "models/plan/model_plan.h"

namespace rocmforge {

/// Counts what is added to a plan from its construction on.
class PartCounter {
 public:
  explicit PartCounter(const ModelPlan& plan) : plan_(&plan), before_(totals()) {}

  [[nodiscard]] ModelParts::Layer counted() const;
  /// Of layer `index`, which is `block`.
  [[nodiscard]] ModelParts::Layer counted(const ModelConfig& config, int index, const Block& block) const;

 private:
  struct Totals {
    std::size_t weights = 0;
    std::size_t experts = 0;
    std::size_t read = 0;
    std::size_t state = 0;
  };
  [[nodiscard]] Totals totals() const;

  const ModelPlan* plan_;
  Totals before_;
};

}  // namespace rocmforge
