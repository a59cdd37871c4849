#include "tensor/shape.h"

#include <algorithm>

#include "base/error.h"

namespace rocmforge {

Shape::Shape(std::span<const std::int64_t> dims) : rank_(static_cast<int>(dims.size())) {
  check(dims.size() <= max_rank, "a shape has at most four dimensions");
  std::copy(dims.begin(), dims.end(), dims_.begin());
}

std::int64_t Shape::operator[](int i) const {
  const int index = i < 0 ? i + rank_ : i;
  check(index >= 0 && index < rank_, "dimension index out of range");
  return dims_[static_cast<std::size_t>(index)];
}

std::int64_t Shape::elems() const { return rows() * cols(); }

std::int64_t Shape::rows() const {
  std::int64_t product = 1;
  for (int i = 0; i + 1 < rank_; ++i) {
    product *= dims_[static_cast<std::size_t>(i)];
  }
  return product;
}

std::int64_t Shape::cols() const { return rank_ == 0 ? 1 : (*this)[-1]; }

Shape Shape::squeezed() const {
  Shape kept;
  for (int i = 0; i < rank_; ++i) {
    if ((*this)[i] != 1) {
      kept.dims_[static_cast<std::size_t>(kept.rank_++)] = (*this)[i];
    }
  }
  return kept;
}

std::string Shape::to_string() const {
  std::string text = "[";
  for (int i = 0; i < rank_; ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string((*this)[i]);
  }
  return text + "]";
}

}  // namespace rocmforge
