#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "models/config/model_config.h"
#include "models/parts/operation.h"
#include "models/plan/planner.h"

namespace rocmforge {

/// Adds a part's output to the residual stream: hidden = sum_norm((hidden + scale * norm(factors * W gathered)) *
/// output_scale). It decides how:
/// without norm, factors and scales the product itself accumulates into hidden; a sum with an RMSNorm may be joined to the
/// next product; anything else is operations of its own. Where several ranks share the layer, the product gives a part of
/// the output, which is summed over the ranks before anything else. Not moved once it has returned operations.
class ResidualOutput {
 public:
  struct Names {
    std::string_view linear;  ///< "attn_output"
    std::int64_t k = 0;
    std::string_view factors{};   ///< of the output's elements; "" for none; not beside a norm
    std::string_view norm{};      ///< "" for none
    std::string_view sum_norm{};  ///< of the residual stream after the sum; "" for none
    bool needs_bias = false;
    std::string_view output_scale{};  ///< "" for none
    float sum_scale = 1.0f;           ///< the same as a number
    Selection columns{};              ///< of the product, which are its k; each rank has others of them
    bool summed = false;              ///< each rank has a part of the output, also of one with all columns
    float* Buffers::*into = nullptr;  ///< the output is written there instead, without norms and scales
  };

  ResidualOutput() = default;
  ResidualOutput(Planner& planner, const ModelConfig& config, int index, const Names& names);

  /// From Buffers::gathered [tokens, k] to Buffers::hidden; Buffers::projected and partial may be written on the way. The
  /// sum may be joined to a later call (ResidualSum).
  void append(Operations& operations) const;
  /// The sum with an RMSNorm; null where the output is added in another way.
  [[nodiscard]] ResidualSum* sum() { return sum_ ? &*sum_ : nullptr; }

 private:
  void append_sum(Operations& operations) const;
  void append_rank_sum(Operations& operations) const;
  void append_factors(Operations& operations) const;

  Linear linear_;
  std::optional<LinearLimits> limits_;
  std::optional<RankSum> rank_sum_;
  const WeightVector* factors_ = nullptr;     ///< null: none
  Resolved<Scale> multiply_;                  ///< by them
  std::optional<ResidualSum> sum_;            ///< with an RMSNorm
  std::optional<Norm> norm_;                  ///< another one
  std::optional<Resolved<ResidualAdd>> add_;  ///< none when the product or the sum adds
  std::optional<Norm> sum_norm_;
  float* Buffers::*into_ = nullptr;
  std::int64_t hidden_ = 0;
  float scale_ = 1.0f;
  float output_scale_ = 1.0f;
};

}  // namespace rocmforge
