#pragma once

// An element of K or V, in pages or in a dense tensor.

#include "kernels/attention/portable/coded.h"
#include "kernels/check/check_code.h"

namespace rocmforge::check_kernels {

/// Element `dim` of position `key` of sequence `s`; `base` is kv.k or kv.v.
__device__ inline double page_element(const gpu::KvAddress& kv, DType dtype, const void* base, int s, int key, int kv_head,
                                      int dim) {
  const std::int64_t at = gpu::kv_row(kv, s, key) + kv_head * kv.head_stride + dim;
  if (dtype == DType::q8_0) {
    return static_cast<double>(static_cast<const std::int8_t*>(base)[at]) *
           static_cast<double>(gpu::kv_scale(kv, base, s, key, kv_head, dim));
  }
  return static_cast<double>(gpu::load_io(base, dtype, at));
}

}  // namespace rocmforge::check_kernels
