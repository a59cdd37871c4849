#pragma once

#include "ops/kv_codes.h"
#include "tensor/dtype.h"
#include "tensor/quant/iq4_nl.h"

namespace rocmforge {

/// Of a type that is_kv_quant.
constexpr KvCoding kv_coding(DType type) {
  switch (type) {
    case DType::q4_0:
      return {4, false, false, false};
    case DType::q4_1:
      return {4, false, true, false};
    case DType::q5_0:
      return {4, true, false, false};
    case DType::q5_1:
      return {4, true, true, false};
    case DType::iq4_nl:
      return {4, false, false, true};
    default:
      return {8, false, false, false};
  }
}

static_assert([] {
  for (int code = 0; code < 16; ++code) {
    if (kv_table_value(code) != iq4_values[code]) {
      return false;
    }
  }
  return true;
}());

}  // namespace rocmforge
