#pragma once

// Products of a warpgroup. Semantics and layouts: NVIDIA PTX ISA manual, chapters on wgmma.

#include <cuda_runtime.h>

#include <cstdint>

#include "base/half.h"
#include "kernels/tile/hopper/shared.h"

namespace rocmforge::hopper {

/// Describes an operand in shared memory with 128-byte swizzle, in rows of 128 bytes. `stride` is the distance of groups of
/// 8 rows in bytes; `leading` that of neighbouring 64-element columns, which only operands stored along N use.
__device__ inline std::uint64_t operand(const void* start, std::uint32_t stride = 1024, std::uint32_t leading = 16) {
  const std::uint64_t address = shared_address(start);
  return (address & 0x3ffff) >> 4 | std::uint64_t{leading >> 4} << 16 | std::uint64_t{stride >> 4} << 32 |
         std::uint64_t{1} << 62;
}
/// The same operand `bytes` further on.
__device__ inline std::uint64_t advance(std::uint64_t descriptor, int bytes) {
  return descriptor + static_cast<std::uint64_t>(bytes >> 4);
}

/// Makes the compiler compute anew what follows from the value.
__device__ inline void forget(std::uint64_t& value) { asm volatile("" : "+l"(value)); }
__device__ inline void forget(int& value) { asm volatile("" : "+r"(value)); }

__device__ inline void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ inline void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
/// Waits until at most `pending` committed groups are unfinished.
template <int pending>
__device__ inline void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(pending) : "memory");
}
/// Keeps the compiler from moving uses of the sums across a wait.
template <int count>
__device__ inline void keep(float (&c)[count]) {
#pragma unroll
  for (int i = 0; i < count; ++i) {
    asm volatile("" : "+f"(c[i])::"memory");
  }
}

/// Forces the computation of `value` before the next wait: the assembler moves a wait up over arithmetic, but not over a
/// store to shared memory. The store here never runs (`value` is not negative).
__device__ inline void stay_before(float value, void* shared) {
  asm volatile(
      "{\n"
      ".reg .pred p;\n"
      "setp.lt.f32 p, %0, 0f00000000;\n"
      "@p st.shared.b32 [%1], 0;\n"
      "}\n" ::"f"(value),
      "r"(shared_address(shared))
      : "memory");
}

// Parts of an instruction's text. nvcc puts a constant array of characters, constraint "C", into the text as it is.

template <int N, bool three_digits = N >= 100>
struct Digits {
  static constexpr char text[] = {'0' + N / 10, '0' + N % 10, 0};
};
template <int N>
struct Digits<N, true> {
  static constexpr char text[] = {'0' + N / 100, '0' + N / 10 % 10, '0' + N % 10, 0};
};

template <class T>
struct WgmmaTypes {
  static constexpr char text[] = "f16.f16";
};
template <>
struct WgmmaTypes<bfloat16> {
  static constexpr char text[] = "bf16.bf16";
};

/// Whether A and B are stored across k (transposed). A in shared memory is stored along k.
template <bool a_in_registers>
struct WgmmaOrder {
  static constexpr char text[] = "0, 0";
};
template <>
struct WgmmaOrder<true> {
  static constexpr char text[] = "1";
};

/// Encloses the parts that an instruction lacks.
template <bool lacks>
struct Comment {
  static constexpr char begin[] = "";
  static constexpr char end[] = "";
};
template <>
struct Comment<true> {
  static constexpr char begin[] = "/*";
  static constexpr char end[] = "*/";
};

/// C += A B for 64 rows, N columns and 16 along k, by one warpgroup. A lane of warp w holds, in c[4 j + 0, 1], row
/// 16 w + lane / 4, columns 8 j + 2 (lane % 4) + 0, 1, and in c[4 j + 2, 3] the same of the row 8 further on.
template <class T, int N>
struct Wgmma {
  static_assert(N == 32 || N == 64 || N == 80 || N == 128 || N == 256);
  static constexpr int count = N / 2;

  /// Both operands in shared memory, B stored along k. `add` 0 starts from zero.
  __device__ static void shared(float (&c)[count], std::uint64_t a, std::uint64_t b, int add) {
    issue<false>(c, {0, 0, 0, 0}, a, b, add);
  }
  /// A in registers, laid out as C is with pairs packed; B in shared memory, stored along N.
  __device__ static void registers(float (&c)[count], const std::uint32_t (&a)[4], std::uint64_t b) {
    issue<true>(c, a, 0, b, 1);
  }

 private:
  /// One text for every N and both places of A: it names 128 sums and A twice, and puts what the instruction lacks into
  /// comments. The operands in comments are never read and cost no register.
  template <bool a_in_registers>
  __device__ static void issue(float (&c)[count], const std::uint32_t (&words)[4], std::uint64_t a, std::uint64_t b,
                               int add) {
    float unused = 0.0f;
    const auto sum = [&](int i) -> float& { return i < count ? c[i] : unused; };
    asm volatile(
        "{\n"
        ".reg .pred p;\n"
        "setp.ne.b32 p, %134, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n%135k16.f32.%136 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, "
        "%14, "
        "%15 %146, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31 %137, %32, %33, %34, %35, "
        "%36, "
        "%37, %38, %39 %138, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, "
        "%59, %60, %61, %62, %63 %139, %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, %80, "
        "%81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, %96, %97, %98, %99, %100, %101, %102, "
        "%103,"
        " %104, %105, %106, %107, %108, %109, %110, %111, %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, "
        "%123, %124, %125, %126, %127 %140}, %141 {%128, %129, %130, %131}, %142 %143 %132, %144 %133, p, 1, 1, %145;\n"
        "}\n"
        : "+f"(sum(0)), "+f"(sum(1)), "+f"(sum(2)), "+f"(sum(3)), "+f"(sum(4)), "+f"(sum(5)), "+f"(sum(6)), "+f"(sum(7)),
          "+f"(sum(8)), "+f"(sum(9)), "+f"(sum(10)), "+f"(sum(11)), "+f"(sum(12)), "+f"(sum(13)), "+f"(sum(14)),
          "+f"(sum(15)), "+f"(sum(16)), "+f"(sum(17)), "+f"(sum(18)), "+f"(sum(19)), "+f"(sum(20)), "+f"(sum(21)),
          "+f"(sum(22)), "+f"(sum(23)), "+f"(sum(24)), "+f"(sum(25)), "+f"(sum(26)), "+f"(sum(27)), "+f"(sum(28)),
          "+f"(sum(29)), "+f"(sum(30)), "+f"(sum(31)), "+f"(sum(32)), "+f"(sum(33)), "+f"(sum(34)), "+f"(sum(35)),
          "+f"(sum(36)), "+f"(sum(37)), "+f"(sum(38)), "+f"(sum(39)), "+f"(sum(40)), "+f"(sum(41)), "+f"(sum(42)),
          "+f"(sum(43)), "+f"(sum(44)), "+f"(sum(45)), "+f"(sum(46)), "+f"(sum(47)), "+f"(sum(48)), "+f"(sum(49)),
          "+f"(sum(50)), "+f"(sum(51)), "+f"(sum(52)), "+f"(sum(53)), "+f"(sum(54)), "+f"(sum(55)), "+f"(sum(56)),
          "+f"(sum(57)), "+f"(sum(58)), "+f"(sum(59)), "+f"(sum(60)), "+f"(sum(61)), "+f"(sum(62)), "+f"(sum(63)),
          "+f"(sum(64)), "+f"(sum(65)), "+f"(sum(66)), "+f"(sum(67)), "+f"(sum(68)), "+f"(sum(69)), "+f"(sum(70)),
          "+f"(sum(71)), "+f"(sum(72)), "+f"(sum(73)), "+f"(sum(74)), "+f"(sum(75)), "+f"(sum(76)), "+f"(sum(77)),
          "+f"(sum(78)), "+f"(sum(79)), "+f"(sum(80)), "+f"(sum(81)), "+f"(sum(82)), "+f"(sum(83)), "+f"(sum(84)),
          "+f"(sum(85)), "+f"(sum(86)), "+f"(sum(87)), "+f"(sum(88)), "+f"(sum(89)), "+f"(sum(90)), "+f"(sum(91)),
          "+f"(sum(92)), "+f"(sum(93)), "+f"(sum(94)), "+f"(sum(95)), "+f"(sum(96)), "+f"(sum(97)), "+f"(sum(98)),
          "+f"(sum(99)), "+f"(sum(100)), "+f"(sum(101)), "+f"(sum(102)), "+f"(sum(103)), "+f"(sum(104)), "+f"(sum(105)),
          "+f"(sum(106)), "+f"(sum(107)), "+f"(sum(108)), "+f"(sum(109)), "+f"(sum(110)), "+f"(sum(111)), "+f"(sum(112)),
          "+f"(sum(113)), "+f"(sum(114)), "+f"(sum(115)), "+f"(sum(116)), "+f"(sum(117)), "+f"(sum(118)), "+f"(sum(119)),
          "+f"(sum(120)), "+f"(sum(121)), "+f"(sum(122)), "+f"(sum(123)), "+f"(sum(124)), "+f"(sum(125)), "+f"(sum(126)),
          "+f"(sum(127))
        : "r"(words[0]), "r"(words[1]), "r"(words[2]), "r"(words[3]), "l"(a), "l"(b), "r"(add), "C"(Digits<N>::text),
          "C"(WgmmaTypes<T>::text), "C"(Comment<N == 64>::begin), "C"(Comment<N == 80>::begin),
          "C"(Comment<N == 128>::begin), "C"(Comment<N != 256>::end), "C"(Comment<!a_in_registers>::begin),
          "C"(Comment<!a_in_registers>::end), "C"(Comment<a_in_registers>::begin), "C"(Comment<a_in_registers>::end),
          "C"(WgmmaOrder<a_in_registers>::text), "C"(Comment<N == 32>::begin));
  }
};

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
