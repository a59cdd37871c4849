#pragma once

#include <algorithm>
#include <cstddef>
#include <ctime>
#include <limits>

namespace rocmforge::test {

/// The size of the large input in multiples of the small one.
constexpr std::size_t growth_of_input = 64;
/// Linear work costs 64 times as much for it, a few times more where it no longer fits the caches; quadratic work 4,096
/// times.
constexpr double most_linear_growth = 512.0;

/// Processor seconds of the quickest of several runs, on which other work on the machine has little effect.
template <typename Work>
double processor_seconds(int runs, const Work& work) {
  double quickest = std::numeric_limits<double>::infinity();
  for (int run = 0; run < runs; ++run) {
    const std::clock_t begin = std::clock();
    work();
    quickest = std::min(quickest, static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC);
  }
  return quickest;
}

/// How many times as much `work(large)` costs as `work(small)`, whose input is growth_of_input times smaller.
template <typename Work, typename Input>
double growth_of_time(const Work& work, const Input& small, const Input& large) {
  constexpr double least_seconds = 20e-6;  // shorter times are not reliable
  const double least = std::max(least_seconds, processor_seconds(5, [&] { work(small); }));
  return processor_seconds(1, [&] { work(large); }) / least;
}

}  // namespace rocmforge::test
