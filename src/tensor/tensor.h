#pragma once

#include <cstddef>

#include "tensor/dtype.h"
#include "tensor/shape.h"

namespace rocmforge {

/// A view of a dense, contiguous tensor; it owns nothing. `data` points to host or device memory: the code that holds it
/// knows which.
struct Tensor {
  const void* data = nullptr;
  DType dtype = DType::f32;
  Shape shape;

  [[nodiscard]] explicit operator bool() const { return data != nullptr; }
  [[nodiscard]] std::size_t bytes() const { return row_bytes(dtype, shape.cols()) * static_cast<std::size_t>(shape.rows()); }
  /// The elements as `T`; the caller has checked the dtype.
  template <class T>
  [[nodiscard]] const T* as() const {
    return static_cast<const T*>(data);
  }
};

}  // namespace rocmforge
