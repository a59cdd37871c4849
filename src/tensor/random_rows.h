#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numbers>
#include <numeric>
#include <utility>
#include <vector>

#include "tensor/dtype.h"

namespace rocmforge {

/// Random numbers for measurements and tests. They are the same on every machine, unlike those of the standard library's
/// distributions. SplitMix64 makes the bits, and the method of Box and Muller the normal values.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  std::uint64_t bits() {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  /// A number in [0, 1).
  double unit() { return static_cast<double>(bits() >> 11) * 0x1p-53; }
  float uniform(float low, float high) { return low + (high - low) * static_cast<float>(unit()); }
  float normal(float deviation = 1.0f) {
    const double radius = std::sqrt(-2.0 * std::log(1.0 - unit()));
    return deviation * static_cast<float>(radius * std::cos(2.0 * std::numbers::pi * unit()));
  }
  std::int32_t below(std::int32_t limit) { return static_cast<std::int32_t>(bits() % static_cast<std::uint64_t>(limit)); }

  /// After about a million values the sequence repeats. The period is a prime, so that no two rows of a tensor are equal.
  std::vector<float> normals(std::int64_t count, float deviation = 1.0f) {
    return repeated(count, [&] { return normal(deviation); });
  }
  std::vector<float> uniforms(std::int64_t count, float low, float high) {
    return repeated(count, [&] { return uniform(low, high); });
  }
  /// 0 to count - 1 in random order.
  std::vector<std::int32_t> permutation(std::int32_t count) {
    std::vector<std::int32_t> order(static_cast<std::size_t>(count));
    std::iota(order.begin(), order.end(), 0);
    for (std::int32_t i = count - 1; i > 0; --i) {
      std::swap(order[static_cast<std::size_t>(i)], order[static_cast<std::size_t>(below(i + 1))]);
    }
    return order;
  }

 private:
  template <class Draw>
  static std::vector<float> repeated(std::int64_t count, const Draw& draw) {
    constexpr std::size_t period = 1'000'003;
    std::vector<float> values(static_cast<std::size_t>(count));
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = i < period ? draw() : values[i - period];
    }
    return values;
  }

  std::uint64_t state_;
};

/// `rows` rows of `cols` elements in the layout of a file: random bits, with scales as large as those of real weights;
/// normal values for plain types. Throws Error with the name of a type that does not compute.
std::vector<std::byte> random_rows(DType type, std::int64_t rows, std::int64_t cols, Random& random);

}  // namespace rocmforge
