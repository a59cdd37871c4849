#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace rocmforge {

/// How rotary frequencies are scaled for contexts longer than the original training context.
struct RopeScaling {
  enum class Kind { none, linear, yarn };
  Kind kind = Kind::none;
  double factor = 1.0;                             ///< of the context length
  double original_context = 0.0;                   ///< yarn: the original training context, in positions
  double extrapolation = 1.0;                      ///< yarn: weight of the unscaled frequencies
  double attention_factor = 1.0;                   ///< multiplies the magnitude
  std::optional<double> magnitude = std::nullopt;  ///< yarn: instead of 1 + 0.1 ln factor
  double beta_fast = 32.0;  ///< yarn: pairs with more rotations than this within original_context are not scaled
  double beta_slow = 1.0;   ///< yarn: pairs with fewer rotations than this are scaled in full
  bool whole_pairs = true;  ///< yarn: the ramp's ends are rounded to whole pairs
};

/// What RopeAppend needs: the angle of pair p at position `pos` is pos * inverse_frequency[p].
struct RopeFrequencies {
  std::vector<float> inverse_frequency;  ///< [n_rot / 2]
  float magnitude = 1.0f;                ///< multiplies cos and sin
};

/// Unscaled: base^(-2p / n_rot) (Su et al. 2021), divided by factors[p] when `factors` [n_rot / 2] is not empty (Llama 3.1).
/// Linear scaling divides by `factor`; YaRN (Peng et al. 2023, section 3.2) scales only the slow pairs, with a ramp to the
/// fast ones.
RopeFrequencies rope_frequencies(std::int32_t n_rot, double base, const RopeScaling& scaling,
                                 std::span<const float> factors);

}  // namespace rocmforge
