#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace rocmforge {

/// How rotary frequencies are stretched for contexts longer than the model was first trained for.
struct RopeScaling {
  enum class Kind { none, linear, yarn };
  Kind kind = Kind::none;
  double factor = 1.0;            ///< of the context length
  double original_context = 0.0;  ///< yarn: positions before stretching
  double extrapolation = 1.0;     ///< yarn: weight of the unstretched frequencies
  double attention_factor = 1.0;  ///< multiplies the magnitude
  double beta_fast = 32.0;        ///< yarn: pairs that turn more often than this within original_context stay unstretched
  double beta_slow = 1.0;         ///< yarn: pairs that turn less often than this are stretched in full
  bool whole_pairs = true;        ///< yarn: the ramp between them begins and ends at pairs, not where the turns are exact
};

/// What RopeAppend needs: the angle of pair p at position `pos` is pos * inverse_frequency[p].
struct RopeFrequencies {
  std::vector<float> inverse_frequency;  ///< [n_rot / 2]
  float magnitude = 1.0f;                ///< multiplies cos and sin
};

/// Unscaled: base^(-2p / n_rot) (Su et al. 2021), divided by factors[p] when `factors` [n_rot / 2] is not empty (Llama 3.1).
/// Linear scaling divides by `factor`; YaRN (Peng et al. 2023, section 3.2) only the slow pairs, with a ramp between.
RopeFrequencies rope_frequencies(std::int32_t n_rot, double base, const RopeScaling& scaling,
                                 std::span<const float> factors);

}  // namespace rocmforge
