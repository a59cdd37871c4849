#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <vector>

#include "checks/model_shapes.h"
#include "tensor/dtype.h"
#include "tensor/random_rows.h"

namespace rocmforge::test {

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
  return std::ranges::equal(std::as_bytes(a), std::as_bytes(b));  // memcmp takes no null, which an empty span may hold
}

}  // namespace rocmforge::test
