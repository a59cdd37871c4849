#pragma once

#include "kernels/launch/cpu/body/bodies.h"
#include "ops/kv_coding.h"
#include "ops/kv_layout.h"

namespace rocmforge {

inline KvStore kv_store_of(DType type) {
  switch (type) {
    case DType::f32:
      return {KvElement::f32, {}};
    case DType::f16:
      return {KvElement::f16, {}};
    case DType::bf16:
      return {KvElement::bf16, {}};
    default:
      return {KvElement::coded, kv_coding(type)};
  }
}

}  // namespace rocmforge
