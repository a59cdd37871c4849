#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "models/parts/block.h"
#include "models/parts/rank_sum.h"
#include "models/parts/residual_output.h"

namespace rocmforge {

/// Mamba: with [x | z] = Win y, u = silu(conv(x) + bias) and [t | B | C] = Wx u
///   Wout scan(u, z, B, C, Wdt t + bias); t, B and C may be normalised, each by an RMSNorm of its own.
/// Its state is the last few rows of x and the state of the scan.
class MambaMixer final : public Mixer {
 public:
  MambaMixer(Planner& planner, const ModelConfig& config, int index);

  [[nodiscard]] bool has_pages() const override { return false; }

 private:
  void plan_inputs(Planner& planner, const ModelConfig& config, int index);
  void plan_scan(Planner& planner, int index);
  void plan_norms(Planner& planner, const ModelConfig& config, int index);
  void add_operations();
  void convolve(const Step& step) const;
  void select(const Step& step) const;
  void normalise(const Step& step) const;
  void scan(const Step& step) const;
  // Parts of Buffers::gathered behind the mixer's output.
  [[nodiscard]] float* convolved(const Step& step) const { return step.buffers.gathered + step.tokens * width_; }
  [[nodiscard]] float* selected(const Step& step) const { return step.buffers.gathered + 2 * step.tokens * width_; }

  MambaConfig config_;  ///< with the channels of this rank
  Selection channels_;  ///< these
  FusedLinear inputs_;  ///< with the norm before it
  Resolved<CausalConv> conv_;
  const WeightVector* conv_weight_ = nullptr;  ///< [channels, taps]
  const WeightVector* conv_bias_ = nullptr;    ///< [channels] or null
  std::int64_t conv_state_ = 0;                ///< offset in each slot
  Linear selection_;                           ///< t, B and C
  std::optional<RankSum> selection_sum_;
  std::vector<float> ones_;  ///< weights of norms without any
  std::vector<Norm> norms_;  ///< of t, B and C, or none
  Linear steps_;             ///< Wdt
  Resolved<SelectiveScan> scan_;
  const WeightVector* a_ = nullptr;  ///< [channels, state_size]
  const WeightVector* d_ = nullptr;  ///< [channels]
  std::int64_t scan_state_ = 0;
  ResidualOutput output_;
};

}  // namespace rocmforge
