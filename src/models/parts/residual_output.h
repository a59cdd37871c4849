#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "models/config/model_config.h"
#include "models/parts/operation.h"
#include "models/plan/planner.h"

namespace rocmforge {

/// Adds a part's output to the residual stream: hidden = sum_norm((hidden + scale * norm(W gathered)) * output_scale). It
/// decides how:
/// without norm and scales the product itself accumulates into hidden; a sum with an RMSNorm may be joined to the next
/// product; anything else is operations of its own. So is every sum of a layer that several ranks share, since the first
/// operation then gives one rank's part of the product, and the others need the sum of all ranks' parts. Not moved once it
/// has returned operations.
class ResidualOutput {
 public:
  struct Names {
    std::string_view linear;  ///< "attn_output"
    std::int64_t k = 0;
    std::string_view norm{};      ///< "" for none
    std::string_view sum_norm{};  ///< of the residual stream after the sum; "" for none
    bool needs_bias = false;
    std::string_view output_scale{};  ///< "" for none
    Shard shard{};                    ///< of the product, by columns; k is that of all ranks
  };

  ResidualOutput() = default;
  ResidualOutput(Planner& planner, const ModelConfig& config, int index, const Names& names);

  /// From Buffers::gathered [tokens, k] to Buffers::hidden; Buffers::projected may be written on the way. The sum may be
  /// joined to a later call (ResidualSum).
  void append(Operations& operations) const;
  /// The sum with an RMSNorm; null where the output is added in another way.
  [[nodiscard]] ResidualSum* sum() { return sum_ ? &*sum_ : nullptr; }

 private:
  void append_sum(Operations& operations) const;

  Linear linear_;
  std::optional<ResidualSum> sum_;            ///< with an RMSNorm
  std::optional<Norm> norm_;                  ///< another one
  std::optional<Resolved<ResidualAdd>> add_;  ///< none when the product or the sum adds
  std::optional<Norm> sum_norm_;
  std::int64_t hidden_ = 0;
  float scale_ = 1.0f;
  float output_scale_ = 1.0f;
};

}  // namespace rocmforge
