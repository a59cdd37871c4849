#pragma once

#include <cstdint>
#include <span>

#include "models/config/model_config.h"
#include "models/step/rank.h"
#include "ops/batch_plan.h"

namespace rocmforge {

/// Rows of the last step in host memory: logits, logits before adjustments and masks, and hidden states. `output` is always
/// the rank that computes the head.
class StepResults {
 public:
  /// A step begins: earlier rows are no longer wanted.
  void begin(const BatchPlan& batch);

  /// Memory of `device` for the copies of so many rows, before a step has begun.
  void reserve_raw_logits(std::size_t rows, std::int64_t vocab, Rank& device);
  /// Copies rows [vocab] of the logits as they are now, in the order of the step.
  void keep_raw_logits(std::span<const std::int32_t> rows, std::int64_t vocab, Rank& output);

  /// [logit rows, vocab]: waits, as hidden() does.
  std::span<const float> logits(const ModelConfig& config, Rank& output);
  /// [hidden rows, ModelConfig::state_width()].
  std::span<const float> hidden(const ModelConfig& config, Rank& output);
  /// [raw rows, vocab], once the step is done.
  [[nodiscard]] std::span<const float> raw_logits(const ModelConfig& config) const;

  [[nodiscard]] std::int32_t hidden_rows() const { return hidden_rows_; }

 private:
  std::int32_t logit_rows_ = 0;
  std::int32_t hidden_rows_ = 0;
  std::int32_t raw_rows_ = 0;
  PinnedBuffer raw_logits_;
  PinnedBuffer logits_;
  PinnedBuffer hidden_;
};

}  // namespace rocmforge
