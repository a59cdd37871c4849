#pragma once

// Instructions of Hopper for products with few tokens, in addition to tile.h: integer tensor core instructions of one warp,
// plain bulk copies. Semantics: NVIDIA PTX ISA manual, chapters on mma.sync and cp.async.bulk.

#include "kernels/tile/hopper/tile.h"

namespace rocmforge::hopper {

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

/// Copies `bytes`, a multiple of 16 between addresses that are, to shared memory; they count towards the barrier's phase.
__device__ inline void copy_bytes(std::uint32_t to, const void* from, std::uint32_t bytes, std::uint32_t barrier,
                                  std::uint64_t policy) {
  shake();
  asm volatile(
      "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%3], %2;\n"
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, [%3], %4;" ::"r"(to),
      "l"(from), "r"(bytes), "r"(barrier), "l"(policy)
      : "memory");
}
__device__ inline void copy_bytes(std::uint32_t to, const void* from, std::uint32_t bytes, std::uint32_t barrier) {
  shake();
  asm volatile(
      "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%3], %2;\n"
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
      "l"(from), "r"(bytes), "r"(barrier)
      : "memory");
}
__device__ inline void arrive_at(std::uint32_t barrier) {
  shake();
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
__device__ inline void init_barrier(std::uint32_t barrier, std::uint32_t arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals));
}

/// Waits until the phase of this parity has completed.
__device__ inline void wait_for(std::uint32_t barrier, std::uint32_t parity) {
  shake();
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "again:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@done bra finished;\n"
      "bra again;\n"
      "finished:\n"
      "}\n" ::"r"(barrier),
      "r"(parity)
      : "memory");
  shake();
}

}  // namespace rocmforge::hopper
