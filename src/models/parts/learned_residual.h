#pragma once

#include "models/config/model_config.h"
#include "models/parts/operation.h"
#include "models/plan/planner.h"

namespace rocmforge {

/// LAuReL (Menghani et al. 2024), a second path beside the mixer: with y = mixer_norm(h),
///   h += y + laurel_post_norm(laurel_r laurel_l y)
class LearnedResidual {
 public:
  LearnedResidual(Planner& planner, const ModelConfig& config, int index);

  /// In Buffers::hidden; Buffers::normed and projected are written on the way. Not moved once it has returned operations.
  void append(Operations& operations) const;

 private:
  std::int64_t hidden_;
  std::int64_t rank_;
  Norm norm_;
  Linear left_;
  Linear right_;
  Norm post_norm_;
  Resolved<ResidualAdd> add_;
};

}  // namespace rocmforge
