#pragma once

#include "models/parts/attention_mixer.h"
#include "models/parts/block.h"
#include "models/parts/ssm_mixer.h"

namespace rocmforge {

/// Attention and Mamba-2 beside each other (Falcon-H1): both read the same norm of the residual stream, and their outputs
/// are added. Each has its output product in the first half, so that one row of their sum is left for the second.
class TwoMixers final : public Mixer {
 public:
  TwoMixers(Planner& planner, const ModelConfig& config, int index);

  [[nodiscard]] bool has_pages() const override { return true; }

 private:
  void add(const Step& step) const;
  void add_to_stream(const Step& step) const;

  SsmMixer ssm_;              ///< its output goes to Buffers::sums
  AttentionMixer attention_;  ///< to Buffers::projected
  Resolved<ResidualAdd> add_;
  float scale_;  ///< of the sum
};

}  // namespace rocmforge
