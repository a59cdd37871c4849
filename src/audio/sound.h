#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace rocmforge {

/// One channel of samples, in full scale from -1 to 1.
struct Sound {
  int rate = 0;  ///< samples of a second
  std::vector<float> samples;
};

/// The rate that encoders hear, in samples of a second.
constexpr int encoder_rate = 16'000;

/// The samples at another rate, as many as there are whole ones in the same time. Each is a sum of those around it,
///   y[n] = sum over i of x[i] c sinc(c (t - i)) cos^2(pi (t - i) / 2w),  t = n from / to,  |t - i| < w,
/// where c = 0.95 min(1, to / from) is the share of the frequencies that is kept, and w = 32 / c. Samples before the first
/// one and behind the last one are zeros. Throws LogicError for rates below 1.
std::vector<float> resample(std::span<const float> x, int from, int to);

/// Bytes that resample() takes beside its input.
std::int64_t resampled_bytes(std::int64_t samples, int from, int to);

}  // namespace rocmforge
