#pragma once

// Products of one warp. Semantics and layouts: NVIDIA PTX ISA manual, chapters on ldmatrix and mma.sync.

#include <cuda_runtime.h>

#include <cstdint>

#include "base/half.h"

namespace rocmforge::hopper {

/// Four 8 x 8 matrices of 16-bit elements from shared memory. Lane i names the address of row i % 8 of matrix i / 8; word m
/// of lane l gets elements 2 (l % 4) + 0, 1 of row l / 4 of matrix m; transposed: of its column l / 4.
template <bool transposed>
__device__ inline void load_matrices(std::uint32_t (&words)[4], std::uint32_t address) {
  if constexpr (transposed) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                 : "r"(address)
                 : "memory");
  } else {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                 : "r"(address)
                 : "memory");
  }
}
/// Loads two matrices, whose rows lanes 0 to 15 name.
__device__ inline void load_matrices(std::uint32_t (&words)[2], std::uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
               : "=r"(words[0]), "=r"(words[1])
               : "r"(address)
               : "memory");
}
/// C += A B for 16 rows, 8 columns and 16 along k. Lane l holds, in c[0, 1], row l / 4, columns 2 (l % 4) + 0, 1 and in
/// c[2, 3] the row 8 further on; of A, k 2 (l % 4) + 0, 1 of those rows in a[0], a[1] and k 8 further on in a[2], a[3]; of
/// B, k 2 (l % 4) + 0, 1 of column l / 4 in b0 and k 8 further on in b1.
template <class T>
__device__ inline void multiply(float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1) {
  if constexpr (__is_same(T, half)) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  } else {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
}

/// C += A B of bytes for 16 rows, 8 columns and 32 along k, by one warp. Lane 4 g + c holds, of A, rows g and g + 8 (a[0],
/// a[1]) at k = 4 c.. and the same (a[2], a[3]) at k = 16 + 4 c..; of B, column g at the same two places; of C, columns 2 c,
/// 2 c + 1 of row g (c[0], c[1]) and of row g + 8.
template <bool signed_a>
__device__ inline void multiply_bytes(int (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1) {
  if constexpr (signed_a) {
    asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  } else {
    asm("mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
}

/// 8 bytes, one for each element of a word of weight_layout.h, in the order of the word's nibbles.
__device__ inline uint2 in_order_of_nibbles(uint2 bytes) {
  return {__byte_perm(bytes.x, bytes.y, 0x5140), __byte_perm(bytes.x, bytes.y, 0x7362)};
}

}  // namespace rocmforge::hopper
