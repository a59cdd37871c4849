#pragma once

#include <optional>

#include "models/config/model_config.h"
#include "models/parts/fused_linear.h"
#include "models/parts/operation.h"
#include "models/plan/planner.h"

namespace rocmforge {

/// The end of an encoder: the gathering of the rows whose hidden states are wanted, the final norm if there is one, and what
/// maps each row by itself: dense layers (dense_3 dense_2 x), or a classifier's head (cls.output f(cls x), with f tanh, or
/// GELU and a norm). Dense layers are linear, so that they may stand before the mean of a text's rows. Not moved once it has
/// returned operations.
class EncoderOutput {
 public:
  /// `config` must outlive the output.
  EncoderOutput(Planner& planner, const ModelConfig& config);

  /// From Buffers::hidden to Buffers::projected [wanted rows, ModelConfig::state_width()].
  [[nodiscard]] const Operations& operations() const { return operations_; }

 private:
  void plan_dense(Planner& planner, const ModelConfig& config);
  void plan_head(Planner& planner, const ModelConfig& config);
  void append_linear(const Linear& linear, float* Buffers::*from, float* Buffers::*to);

  Resolved<GatherRows> gather_;
  std::optional<Norm> norm_;
  Linear first_;                         ///< dense_2 or cls
  std::optional<Resolved<Scale>> tanh_;  ///< a soft-cap of 1
  std::optional<Resolved<GatedActivation>> gelu_;
  std::optional<Norm> head_norm_;
  Linear second_;  ///< dense_3 or cls.output
  Operations operations_;
};

}  // namespace rocmforge
