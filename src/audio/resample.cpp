#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

#include "audio/sound.h"
#include "base/error.h"

namespace rocmforge {
namespace {

/// The sums' factors: the time of output n lies a whole number of steps of 1 / `phases` behind an input, so that there are
/// so many sets of factors.
struct Filter {
  Filter(int from, int to)
      : phases(to / std::gcd(from, to)),
        stride(from / std::gcd(from, to)),
        kept(0.95 * std::min(1.0, static_cast<double>(to) / from)),
        half(static_cast<std::int64_t>(std::ceil(32.0 / kept))) {}

  [[nodiscard]] std::int64_t taps() const { return 2 * half; }
  /// For `offset` inputs behind the output's time.
  [[nodiscard]] double factor(double offset) const {
    const double width = 32.0 / kept;
    if (std::abs(offset) >= width) {
      return 0.0;
    }
    const double angle = std::numbers::pi * kept * offset;
    const double window = std::cos(std::numbers::pi * offset / (2 * width));
    return kept * (angle == 0.0 ? 1.0 : std::sin(angle) / angle) * window * window;
  }
  /// [phases, taps]: of the inputs first - half + 1 and on, where `first` is the last one that is not behind the output.
  [[nodiscard]] std::vector<float> factors() const {
    std::vector<float> all;
    all.reserve(static_cast<std::size_t>(phases * taps()));
    for (std::int64_t phase = 0; phase < phases; ++phase) {
      for (std::int64_t tap = 0; tap < taps(); ++tap) {
        const double offset = static_cast<double>(tap - half + 1) - static_cast<double>(phase) / static_cast<double>(phases);
        all.push_back(static_cast<float>(factor(offset)));
      }
    }
    return all;
  }

  std::int64_t phases;
  std::int64_t stride;  ///< of an output, in the same steps
  double kept;
  std::int64_t half;
};

std::int64_t resampled_count(std::int64_t samples, const Filter& filter) { return samples * filter.phases / filter.stride; }

}  // namespace

std::vector<float> resample(std::span<const float> x, int from, int to) {
  check(from > 0 && to > 0, "rates are above 0");
  if (from == to) {
    return {x.begin(), x.end()};
  }
  const Filter filter(from, to);
  const std::vector<float> factors = filter.factors();
  const auto count = static_cast<std::int64_t>(x.size());
  std::vector<float> out(static_cast<std::size_t>(resampled_count(count, filter)));
  for (std::int64_t n = 0; n < std::ssize(out); ++n) {
    const std::int64_t begin = n * filter.stride / filter.phases - filter.half + 1;
    const float* of_phase = factors.data() + n * filter.stride % filter.phases * filter.taps();
    double sum = 0.0;
    for (std::int64_t i = std::max<std::int64_t>(begin, 0); i < std::min(begin + filter.taps(), count); ++i) {
      sum += static_cast<double>(x[static_cast<std::size_t>(i)]) * of_phase[i - begin];
    }
    out[static_cast<std::size_t>(n)] = static_cast<float>(sum);
  }
  return out;
}

std::int64_t resampled_bytes(std::int64_t samples, int from, int to) {
  const Filter filter(from, to);
  const std::int64_t factors = from == to ? 0 : filter.phases * filter.taps();
  return (resampled_count(samples, filter) + factors) * static_cast<std::int64_t>(sizeof(float));
}

}  // namespace rocmforge
