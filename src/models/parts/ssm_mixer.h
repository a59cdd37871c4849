#pragma once

#include <cstdint>
#include <vector>

#include "models/parts/block.h"
#include "models/parts/residual_output.h"

namespace rocmforge {

/// Mamba-2: with [z | xBC | dt] = Win y and [x | B | C] = silu(conv(xBC) + bias)
///   Wout norm(scan(x, B, C, dt) * silu(z)), an RMSNorm of each group of heads by itself, if there is one.
/// Its state is the last few rows of xBC and the state of the scan.
class SsmMixer final : public Mixer {
 public:
  /// `into`: see ResidualOutput.
  SsmMixer(Planner& planner, const ModelConfig& config, int index, float* Buffers::*into = nullptr);

  [[nodiscard]] bool has_pages() const override { return false; }

 private:
  /// The heads and groups of this rank.
  void take_share(const Planner& planner, const SsmConfig& all, int index);
  void plan_norm(Planner& planner, const ModelConfig& config, int index);
  void convolve(const Step& step) const;
  void scan(const Step& step) const;
  void normalise(const Step& step) const;
  /// The same of groups whose heads several ranks have.
  void normalise_together(const Step& step) const;
  /// The convolution's output, [tokens, channels] behind the mixer's output in Buffers::gathered.
  [[nodiscard]] float* convolved(const Step& step) const { return step.buffers.gathered + step.tokens * width_; }

  SsmConfig config_;  ///< with the heads and groups of this rank
  Selection heads_;   ///< these
  Selection groups_;
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
  /// Where ranks share a group: the columns of each rank, and the copy of this rank's.
  std::vector<std::int64_t> widths_;
  Resolved<CopyHeads> copy_;
  std::int64_t first_column_ = 0;
  ResidualOutput output_;
};

}  // namespace rocmforge
