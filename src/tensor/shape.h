#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

namespace rocmforge {

/// Up to four dimensions, outermost first: a linear layer's weight is [out_features, in_features], and the last dimension is
/// contiguous. (GGUF files list them in the opposite order; the reader reverses them.)
class Shape {
 public:
  static constexpr int max_rank = 4;

  Shape() = default;
  Shape(std::initializer_list<std::int64_t> dims) : Shape(std::span(dims.begin(), dims.size())) {}
  explicit Shape(std::span<const std::int64_t> dims);

  [[nodiscard]] int rank() const { return rank_; }
  /// Dimension `i`. A negative `i` counts from the end, as in Python.
  [[nodiscard]] std::int64_t operator[](int i) const;
  /// The product of all dimensions; 1 for rank 0.
  [[nodiscard]] std::int64_t elems() const;
  /// The product of all dimensions but the last.
  [[nodiscard]] std::int64_t rows() const;
  /// The last dimension; 1 for rank 0.
  [[nodiscard]] std::int64_t cols() const;
  /// Without dimensions of 1. Tensors whose squeezed shapes are equal have the same elements in the same places.
  [[nodiscard]] Shape squeezed() const;
  /// "[2, 3]"
  [[nodiscard]] std::string to_string() const;

  friend bool operator==(const Shape&, const Shape&) = default;

 private:
  std::array<std::int64_t, max_rank> dims_{};
  int rank_ = 0;
};

}  // namespace rocmforge
