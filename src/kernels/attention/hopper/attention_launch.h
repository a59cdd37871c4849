#pragma once

#include <cstdint>

#include "kernels/attention/hopper/attention_args.h"
#include "tensor/dtype.h"

namespace rocmforge {

// What the launches of both attention kernels share.

constexpr std::int32_t block_tokens_default = 64;

inline hopper::IoType io_type(DType dtype) {
  return dtype == DType::f32 ? hopper::IoType::f32 : dtype == DType::f16 ? hopper::IoType::f16 : hopper::IoType::bf16;
}

}  // namespace rocmforge
