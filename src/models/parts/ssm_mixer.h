#pragma once

#include "models/parts/block.h"
#include "models/parts/residual_output.h"

namespace rocmforge {

/// Mamba-2: with [z | xBC | dt] = Win y and [x | B | C] = silu(conv(xBC) + bias)
///   Wout norm(scan(x, B, C, dt) * silu(z)), an RMSNorm of each group of heads by itself.
/// Its state is the last few rows of xBC and the state of the scan.
class SsmMixer final : public Mixer {
 public:
  SsmMixer(Planner& planner, const ModelConfig& config, int index);

  [[nodiscard]] bool has_pages() const override { return false; }

 private:
  void convolve(const Step& step) const;
  void scan(const Step& step) const;
  void normalise(const Step& step) const;
  /// The convolution's output, [tokens, channels] behind the mixer's output in Buffers::gathered.
  [[nodiscard]] float* convolved(const Step& step) const { return step.buffers.gathered + step.tokens * width_; }

  SsmConfig config_;
  FusedLinear inputs_;  ///< with the norm before it
  Resolved<CausalConv> conv_;
  const WeightVector* conv_weight_;  ///< [channels, taps]
  const WeightVector* conv_bias_;    ///< [channels] or null
  std::int64_t conv_state_ = 0;      ///< offset in each slot
  Resolved<SsmScan> scan_;
  const WeightVector* a_;        ///< [heads]
  const WeightVector* d_;        ///< [heads]
  const WeightVector* dt_bias_;  ///< [heads]
  std::int64_t scan_state_ = 0;
  Resolved<RmsNorm> norm_;
  const WeightVector* norm_weight_;  ///< [groups, columns of a group]
  ResidualOutput output_;
};

}  // namespace rocmforge
