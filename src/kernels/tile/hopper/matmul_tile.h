#pragma once

// Instructions of Hopper for quantised products with many tokens, in addition to tile.h: plain bulk copies, loads from
// shared memory by address, pairs of binary16, and wgmma with A from registers. Semantics and layouts: NVIDIA PTX ISA
// manual.

#include "kernels/tile/hopper/tile.h"

namespace rocmforge::hopper {

// --- shared memory ----------------------------------------------------------------------------------------------------

// Loads from an address in shared memory, aligned to their size.
__device__ inline void load_shared(std::uint32_t (&words)[4], std::uint32_t address) {
  asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
               : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
               : "r"(address)
               : "memory");
}
__device__ inline void load_shared(std::uint32_t (&words)[2], std::uint32_t address) {
  asm volatile("ld.shared.v2.b32 {%0, %1}, [%2];" : "=r"(words[0]), "=r"(words[1]) : "r"(address) : "memory");
}
__device__ inline std::uint32_t load_shared(std::uint32_t address) {
  std::uint32_t word;
  asm volatile("ld.shared.b32 %0, [%1];" : "=r"(word) : "r"(address) : "memory");
  return word;
}
__device__ inline std::uint32_t load_shared_16(std::uint32_t address) {
  std::uint16_t bits;
  asm volatile("ld.shared.u16 %0, [%1];" : "=h"(bits) : "r"(address) : "memory");
  return bits;
}
__device__ inline void store_shared(std::uint32_t address, float value) {
  asm volatile("st.shared.f32 [%0], %1;" ::"r"(address), "f"(value) : "memory");
}

/// Copies a multiple of 16 bytes, from and to addresses that are such multiples; they count towards the barrier's phase.
__device__ inline void copy_bytes(void* to, const void* from, std::uint32_t bytes, std::uint64_t* barrier) {
  shake();
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(shared_address(to)),
      "l"(from), "r"(bytes), "r"(shared_address(barrier))
      : "memory");
}
/// The same under a cache policy.
__device__ inline void copy_bytes(void* to, const void* from, std::uint32_t bytes, std::uint64_t* barrier,
                                  std::uint64_t policy) {
  shake();
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, [%3], %4;" ::"r"(
          shared_address(to)),
      "l"(from), "r"(bytes), "r"(shared_address(barrier)), "l"(policy)
      : "memory");
}
/// `once`: nothing reads the data again, so that they leave the L2 cache first.
__device__ inline void copy_bytes_read(bool once, void* to, const void* from, std::uint32_t bytes, std::uint64_t* barrier) {
  if (once) {
    copy_bytes(to, from, bytes, barrier, evict_first_policy());
  } else {
    copy_bytes(to, from, bytes, barrier);
  }
}

// --- sums -------------------------------------------------------------------------------------------------------------

__device__ inline float plus(float a, float b) { return a + b; }
__device__ inline float4 plus(const float4& a, const float4& b) { return {a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w}; }

// --- pairs of binary16, each in 32 bits -------------------------------------------------------------------------------

__device__ inline std::uint32_t fma_pair(std::uint32_t a, std::uint32_t b, std::uint32_t c) {
  std::uint32_t sum;
  asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(sum) : "r"(a), "r"(b), "r"(c));
  return sum;
}
__device__ inline std::uint32_t multiply_pair(std::uint32_t a, std::uint32_t b) {
  std::uint32_t product;
  asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(product) : "r"(a), "r"(b));
  return product;
}
__device__ inline std::uint32_t subtract_pair(std::uint32_t a, std::uint32_t b) {
  std::uint32_t difference;
  asm("sub.rn.f16x2 %0, %1, %2;" : "=r"(difference) : "r"(a), "r"(b));
  return difference;
}
/// The low or the high half of a pair twice.
template <int index>
__device__ inline std::uint32_t twice(std::uint32_t pair) {
  return __byte_perm(pair, 0, index == 0 ? 0x1010 : 0x3232);
}
/// (a & mask) | bits in one instruction.
template <std::uint32_t mask, std::uint32_t bits>
__device__ inline std::uint32_t mask_or(std::uint32_t a) {
  std::uint32_t result;
  asm("lop3.b32 %0, %1, %2, %3, 0xea;" : "=r"(result) : "r"(a), "n"(mask), "n"(bits));
  return result;
}
/// (a & mask) | b in one instruction.
template <std::uint32_t mask>
__device__ inline std::uint32_t mask_or(std::uint32_t a, std::uint32_t b) {
  std::uint32_t result;
  asm("lop3.b32 %0, %1, %2, %3, 0xea;" : "=r"(result) : "r"(a), "n"(mask), "r"(b));
  return result;
}

// --- wgmma ------------------------------------------------------------------------------------------------------------

// Names of the registers that hold sums, from `i` on.
#define ROCMFORGE_SUMS_4(i) "+f"(c[i]), "+f"(c[(i) + 1]), "+f"(c[(i) + 2]), "+f"(c[(i) + 3])
#define ROCMFORGE_SUMS_8(i) ROCMFORGE_SUMS_4(i), ROCMFORGE_SUMS_4((i) + 4)
#define ROCMFORGE_SUMS_16(i) ROCMFORGE_SUMS_8(i), ROCMFORGE_SUMS_8((i) + 8)
#define ROCMFORGE_SUMS_32(i) ROCMFORGE_SUMS_16(i), ROCMFORGE_SUMS_16((i) + 16)
#define ROCMFORGE_SUMS_64(i) ROCMFORGE_SUMS_32(i), ROCMFORGE_SUMS_32((i) + 32)
#define ROCMFORGE_SUMS_128(i) ROCMFORGE_SUMS_64(i), ROCMFORGE_SUMS_64((i) + 64)

// multiply_registers(c, a, b): c += A B for 64 rows of A, 16 along k and 16, 32, 64, 128 or 256 columns of B, of binary16. A
// lane of warp w holds of A, in a[0..3], the pairs of row 16 w + lane / 4 from 2 (lane % 4) on, the same of the row 8
// further on, and both again 8 further along k. C lies as Wgmma says.

__device__ inline void multiply_registers(float (&c)[8], const std::uint32_t (&a)[4], std::uint64_t b) {
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16 {%0, %1, %2, %3, %4, %5, %6, %7}, {%8, %9, %10, "
      "%11}, %12, 1, 1, 1, 0;\n"
      : ROCMFORGE_SUMS_8(0)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}
__device__ inline void multiply_registers(float (&c)[16], const std::uint32_t (&a)[4], std::uint64_t b) {
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n32k16.f32.f16.f16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, "
      "%11, %12, %13, %14, %15}, {%16, %17, %18, %19}, %20, 1, 1, 1, 0;\n"
      : ROCMFORGE_SUMS_16(0)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}
__device__ inline void multiply_registers(float (&c)[32], const std::uint32_t (&a)[4], std::uint64_t b) {
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, "
      "%11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, "
      "%31}, {%32, %33, %34, %35}, %36, 1, 1, 1, 0;\n"
      : ROCMFORGE_SUMS_32(0)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}
__device__ inline void multiply_registers(float (&c)[64], const std::uint32_t (&a)[4], std::uint64_t b) {
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, "
      "%11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, "
      "%31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, "
      "%51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, {%64, %65, %66, %67}, %68, 1, 1, "
      "1, 0;\n"
      : ROCMFORGE_SUMS_64(0)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}
__device__ inline void multiply_registers(float (&c)[128], const std::uint32_t (&a)[4], std::uint64_t b) {
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n256k16.f32.f16.f16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, "
      "%11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, "
      "%31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, "
      "%51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, %64, %65, %66, %67, %68, %69, %70, "
      "%71, %72, %73, %74, %75, %76, %77, %78, %79, %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, "
      "%91, %92, %93, %94, %95, %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, "
      "%109, %110, %111, %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, "
      "%125, %126, %127}, {%128, %129, %130, %131}, %132, 1, 1, 1, 0;\n"
      : ROCMFORGE_SUMS_128(0)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}

#undef ROCMFORGE_SUMS_4
#undef ROCMFORGE_SUMS_8
#undef ROCMFORGE_SUMS_16
#undef ROCMFORGE_SUMS_32
#undef ROCMFORGE_SUMS_64
#undef ROCMFORGE_SUMS_128

}  // namespace rocmforge::hopper
