#pragma once

#include "models/parts/block.h"
#include "models/parts/residual_output.h"

namespace rocmforge {

/// Wo (c * conv(b * x)) with [b | c | x] = Wi y: a short convolution over positions between two gates (LFM2). Its state is
/// the last few rows of b * x.
class ShortConvMixer final : public Mixer {
 public:
  ShortConvMixer(Planner& planner, const ModelConfig& config, int index);

  [[nodiscard]] bool has_pages() const override { return false; }

 private:
  void convolve(const Step& step) const;

  FusedLinear inputs_;  ///< with the norm before it
  Resolved<CausalConv> conv_;
  const WeightVector* weight_;     ///< [hidden, taps]
  std::int64_t state_offset_ = 0;  ///< in each slot
  ResidualOutput output_;
};

}  // namespace rocmforge
