#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <numbers>
#include <span>
#include <string>
#include <vector>

#include "tensor/dtype.h"

namespace rocmforge::test {

/// Reproducible on every machine, unlike the distributions of the standard library (SplitMix64, Box and Muller).
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  std::uint64_t bits() {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  /// In [0, 1).
  double unit() { return static_cast<double>(bits() >> 11) * 0x1p-53; }
  float uniform(float low, float high) { return low + (high - low) * static_cast<float>(unit()); }
  float normal(float deviation = 1.0f) {
    const double radius = std::sqrt(-2.0 * std::log(1.0 - unit()));
    return deviation * static_cast<float>(radius * std::cos(2.0 * std::numbers::pi * unit()));
  }
  std::int32_t below(std::int32_t limit) { return static_cast<std::int32_t>(bits() % static_cast<std::uint64_t>(limit)); }

  /// Millions of them repeat, with a period that no tensor's rows share.
  std::vector<float> normals(std::int64_t count, float deviation = 1.0f) {
    constexpr std::size_t period = 1'000'003;
    std::vector<float> values(static_cast<std::size_t>(count));
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = i < period ? normal(deviation) : values[i - period];
    }
    return values;
  }
  std::vector<float> uniforms(std::int64_t count, float low, float high) {
    std::vector<float> values(static_cast<std::size_t>(count));
    constexpr std::size_t period = 1'000'003;
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = i < period ? uniform(low, high) : values[i - period];
    }
    return values;
  }
  /// 0 to count - 1 in random order.
  std::vector<std::int32_t> permutation(std::int32_t count) {
    std::vector<std::int32_t> order(static_cast<std::size_t>(count));
    for (std::int32_t i = 0; i < count; ++i) {
      order[static_cast<std::size_t>(i)] = i;
    }
    for (std::int32_t i = count - 1; i > 0; --i) {
      std::swap(order[static_cast<std::size_t>(i)], order[static_cast<std::size_t>(below(i + 1))]);
    }
    return order;
  }

 private:
  std::uint64_t state_;
};

/// Memory aligned to 64 bytes whose every element, of any float type, is NaN.
class PoisonedBytes {
 public:
  explicit PoisonedBytes(std::size_t size_bytes)
      : size_(size_bytes), data_(static_cast<std::byte*>(::operator new (size_bytes + 64, std::align_val_t{64}))) {
    std::memset(data_.get(), 0xff, size_bytes + 64);
  }
  [[nodiscard]] std::byte* data() { return data_.get(); }
  [[nodiscard]] std::span<const std::byte> bytes() const { return {data_.get(), size_}; }
  /// The bytes after the end are still poisoned.
  [[nodiscard]] bool intact() const {
    for (std::size_t i = size_; i < size_ + 64; ++i) {
      if (data_.get()[i] != std::byte{0xff}) {
        return false;
      }
    }
    return true;
  }

 private:
  struct Free {
    void operator()(std::byte* pointer) const { ::operator delete (pointer, std::align_val_t{64}); }
  };
  std::size_t size_;
  std::unique_ptr<std::byte, Free> data_;
};

/// An output that was never written stays NaN and fails every comparison.
inline std::vector<float> poisoned(std::int64_t count) {
  return std::vector<float>(static_cast<std::size_t>(count), std::nanf(""));
}

/// |actual - expected| / |expected|, Euclidean norms; NaN anywhere gives NaN.
inline double relative_error(std::span<const float> actual, std::span<const float> expected) {
  double difference = 0.0;
  double norm = 0.0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double d = double{actual[i]} - double{expected[i]};
    difference += d * d;
    norm += double{expected[i]} * double{expected[i]};
  }
  return norm == 0.0 ? std::sqrt(difference) : std::sqrt(difference / norm);
}

inline bool same_bits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

/// Where a format's blocks keep their 16-bit scale, and the offset or minimum that goes with it.
struct ScaleFields {
  DType type;
  int scale_offset;         ///< -1 where the scale is a power of two in the block's first byte
  int minimum_offset = -1;  ///< -1 for none
  float minimum_ratio = 0;  ///< minimum / scale that gives weights around 0, as real ones are
};

inline std::vector<ScaleFields> scale_fields() {
  return {{DType::q4_0, 0},           {DType::q4_1, 0, 2, -7.5f},  {DType::q5_0, 0},   {DType::q5_1, 0, 2, -15.5f},
          {DType::q8_0, 0},           {DType::q2_k, 80, 82, 1.5f}, {DType::q3_k, 108}, {DType::q4_k, 0, 2, 7.5f},
          {DType::q5_k, 0, 2, 15.5f}, {DType::q6_k, 208},          {DType::iq4_nl, 0}, {DType::iq4_xs, 0},
          {DType::mxfp4, -1}};
}

/// Every type that computes, plain and quantised.
std::vector<DType> computing_types();

/// `rows` rows of `cols` random elements as a file would store them: random bits, with scales of the size real weights have.
std::vector<std::byte> random_rows(DType type, std::int64_t rows, std::int64_t cols, Random& random);

}  // namespace rocmforge::test
