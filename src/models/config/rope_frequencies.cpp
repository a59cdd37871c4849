#include "models/config/rope_frequencies.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/error.h"

namespace rocmforge {
namespace {

/// The pair (as a real number) that makes `turns` full rotations within the original context.
double pair_of(double turns, std::int32_t n_rot, double base, double original_context) {
  return n_rot * std::log(original_context / (turns * 2.0 * std::numbers::pi)) / (2.0 * std::log(base));
}

}  // namespace

RopeFrequencies rope_frequencies(std::int32_t n_rot, double base, const RopeScaling& scaling,
                                 std::span<const float> factors) {
  const auto pairs = static_cast<std::size_t>(n_rot / 2);
  check(factors.empty() || factors.size() == pairs, "one frequency factor for each rotated pair");
  const bool yarn = scaling.kind == RopeScaling::Kind::yarn;
  double low = 0.0;
  double high = 0.0;
  if (yarn) {
    low = pair_of(scaling.beta_fast, n_rot, base, scaling.original_context);
    high = pair_of(scaling.beta_slow, n_rot, base, scaling.original_context);
    low = std::max(0.0, scaling.whole_pairs ? std::floor(low) : low);
    high = std::min(n_rot - 1.0, scaling.whole_pairs ? std::ceil(high) : high);
  }

  RopeFrequencies result;
  for (std::size_t p = 0; p < pairs; ++p) {
    const double factor = factors.empty() ? 1.0 : static_cast<double>(factors[p]);
    const double plain = std::pow(base, -2.0 * static_cast<double>(p) / n_rot) / factor;
    const double stretched = scaling.kind == RopeScaling::Kind::none ? plain : plain / scaling.factor;
    double keep = 0.0;  // weight of the unscaled frequency
    if (yarn) {
      const double ramp = std::clamp((static_cast<double>(p) - low) / std::max(0.001, high - low), 0.0, 1.0);
      keep = (1.0 - ramp) * scaling.extrapolation;
    }
    result.inverse_frequency.push_back(static_cast<float>(stretched * (1.0 - keep) + plain * keep));
  }
  const double own = yarn && scaling.extrapolation != 0.0 ? 1.0 + 0.1 * std::log(std::max(scaling.factor, 1.0)) : 1.0;
  result.magnitude = static_cast<float>(scaling.attention_factor * scaling.magnitude.value_or(own));
  return result;
}

}  // namespace rocmforge
