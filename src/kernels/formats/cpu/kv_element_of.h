#pragma once

#include <cstddef>

#include "kernels/launch/cpu/body/bodies.h"
#include "tensor/dtype.h"

namespace rocmforge {

inline KvElement kv_element_of(DType type) {
  switch (type) {
    case DType::f16:
      return KvElement::f16;
    case DType::bf16:
      return KvElement::bf16;
    case DType::q8_0:
      return KvElement::q8_0;
    default:
      return KvElement::f32;
  }
}

inline std::int64_t kv_element_bytes(DType type) { return type == DType::f32 ? 4 : type == DType::q8_0 ? 1 : 2; }

}  // namespace rocmforge
