#pragma once

#include <cstddef>

#include "tensor/dtype.h"
#include "tensor/shape.h"

namespace rocmforge {

/// A view of a dense, contiguous tensor. It does not own its memory. `data` points to host or device memory; the code that
/// uses the view knows which.
struct Tensor {
  const void* data = nullptr;
  DType dtype = DType::f32;
  Shape shape;

  [[nodiscard]] explicit operator bool() const { return data != nullptr; }
  [[nodiscard]] std::size_t bytes() const { return row_bytes(dtype, shape.cols()) * static_cast<std::size_t>(shape.rows()); }
  /// The elements as `T`. The caller must have checked the dtype.
  template <class T>
  [[nodiscard]] const T* as() const {
    return static_cast<const T*>(data);
  }
};

}  // namespace rocmforge
