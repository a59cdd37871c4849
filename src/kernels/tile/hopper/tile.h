#pragma once

// Hopper's matrix and copy engines: wgmma, the bulk tensor copy, mbarriers, register reallocation. Further instructions are
// in matmul_tile.h and matvec_tile.h. Semantics and layouts: NVIDIA PTX ISA manual, chapters on wgmma, cp.async.bulk.tensor,
// mbarrier.

#include <cuda_runtime.h>

#include <cstdint>

#include "base/half.h"
#include "kernels/tile/shake.h"

namespace rocmforge::hopper {

using gpu::shake;

inline constexpr int warpgroup_size = 128;

__device__ inline std::uint32_t shared_address(const void* pointer) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(pointer));
}

/// Stores 16 bytes at an address in shared memory that is a multiple of 16.
__device__ inline void store_shared(std::uint32_t address, const std::uint32_t (&words)[4]) {
  asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(words[0]), "r"(words[1]), "r"(words[2]),
               "r"(words[3])
               : "memory");
}

// --- clusters ---------------------------------------------------------------------------------------------------------

/// Writes a float to the same place in the shared memory of work-group `rank` of the cluster.
__device__ inline void store_cluster(const float* pointer, std::uint32_t rank, float value) {
  asm volatile(
      "{\n"
      ".reg .b32 there;\n"
      "mapa.shared::cluster.u32 there, %0, %1;\n"
      "st.shared::cluster.f32 [there], %2;\n"
      "}\n" ::"r"(shared_address(pointer)),
      "r"(rank), "f"(value)
      : "memory");
}
/// Reads from the same place in the shared memory of work-group `rank` of the cluster.
__device__ inline float load_cluster(const float* pointer, std::uint32_t rank) {
  float value;
  asm volatile(
      "{\n"
      ".reg .b32 there;\n"
      "mapa.shared::cluster.u32 there, %1, %2;\n"
      "ld.shared::cluster.f32 %0, [there];\n"
      "}\n"
      : "=f"(value)
      : "r"(shared_address(pointer)), "r"(rank)
      : "memory");
  return value;
}
__device__ inline float4 load_cluster(const float4* pointer, std::uint32_t rank) {
  float4 value;
  asm volatile(
      "{\n"
      ".reg .b32 there;\n"
      "mapa.shared::cluster.u32 there, %4, %5;\n"
      "ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [there];\n"
      "}\n"
      : "=f"(value.x), "=f"(value.y), "=f"(value.z), "=f"(value.w)
      : "r"(shared_address(pointer)), "r"(rank)
      : "memory");
  return value;
}
/// The two halves of a barrier of all threads of the cluster: writes to each other's shared memory before arriving are
/// visible after waiting. Once a work-group has arrived, others may write its shared memory.
__device__ inline void cluster_arrive() {
  shake();
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}
/// For work-groups that have only read: their reads are complete before others overwrite, and no write is waited for.
__device__ inline void cluster_arrive_relaxed() {
  shake();
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
}
__device__ inline void cluster_wait() {
  shake();
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
  shake();
}

// --- mbarrier ---------------------------------------------------------------------------------------------------------

__device__ inline void barrier_init(std::uint64_t* barrier, std::uint32_t arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(arrivals));
}
__device__ inline void barrier_init_fence() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
__device__ inline void barrier_expect(std::uint64_t* barrier, std::uint32_t bytes) {
  shake();
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)), "r"(bytes)
               : "memory");
}
__device__ inline void barrier_arrive(std::uint64_t* barrier) {
  shake();
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier)) : "memory");
}
/// Waits until the phase of this parity has completed.
__device__ inline void barrier_wait(std::uint64_t* barrier, std::uint32_t parity) {
  shake();
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "again:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@done bra finished;\n"
      "bra again;\n"
      "finished:\n"
      "}\n" ::"r"(shared_address(barrier)),
      "r"(parity)
      : "memory");
  shake();
}

/// Whether the phase of this parity has completed.
__device__ inline bool barrier_test(std::uint64_t* barrier, std::uint32_t parity) {
  shake();
  std::uint32_t done;
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "mbarrier.test_wait.parity.shared::cta.b64 done, [%1], %2;\n"
      "selp.u32 %0, 1, 0, done;\n"
      "}\n"
      : "=r"(done)
      : "r"(shared_address(barrier)), "r"(parity)
      : "memory");
  return done != 0;
}

/// A barrier of `threads` threads of the work-group; id 0 is __syncthreads'.
template <int id, int threads>
__device__ inline void named_barrier() {
  shake();
  asm volatile("bar.sync %0, %1;" ::"n"(id), "n"(threads) : "memory");
  shake();
}

__device__ inline void named_barrier_sync(int id, int threads) {
  shake();
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
  shake();
}
__device__ inline void named_barrier_arrive(int id, int threads) {
  shake();
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

/// Ordinary writes to shared memory become visible to wgmma and to bulk copies.
__device__ inline void async_proxy_fence() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// --- bulk tensor copies -----------------------------------------------------------------------------------------------

/// The driver's description of a tensor (CUtensorMap).
struct alignas(64) TensorMap {
  std::uint64_t words[16];
};

/// Copies one box of a 4-dimensional tensor to shared memory; its bytes count towards the barrier's phase.
__device__ inline void copy_box(void* to, const TensorMap* map, std::uint64_t* barrier, int c0, int c1, int c2, int c3) {
  shake();
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6}], [%2];" ::
          "r"(shared_address(to)),
      "l"(map), "r"(shared_address(barrier)), "r"(c0), "r"(c1), "r"(c2), "r"(c3)
      : "memory");
}
/// The same under a cache policy.
__device__ inline void copy_box(void* to, const TensorMap* map, std::uint64_t* barrier, int c0, int c1, int c2, int c3,
                                std::uint64_t policy) {
  shake();
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1, {%3, %4, %5, "
      "%6}], [%2], %7;" ::"r"(shared_address(to)),
      "l"(map), "r"(shared_address(barrier)), "r"(c0), "r"(c1), "r"(c2), "r"(c3), "l"(policy)
      : "memory");
}
/// A cache policy: data that are read under it leave the L2 cache first, so that what is read once does not displace the
/// rest.
__device__ inline std::uint64_t evict_first_policy() {
  std::uint64_t policy;
  asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}
__device__ inline void prefetch_map(const TensorMap* map) { asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory"); }

// --- registers --------------------------------------------------------------------------------------------------------

template <int count>
__device__ inline void give_up_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(count));
}
template <int count>
__device__ inline void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(count));
}

// --- arithmetic -------------------------------------------------------------------------------------------------------

__device__ inline float exp2_fast(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
/// Two floats as two 16-bit numbers, `low` in the low half.
template <class T>
__device__ inline std::uint32_t pack(float low, float high) {
  std::uint32_t packed;
  if constexpr (__is_same(T, half)) {
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  } else {
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  }
  return packed;
}

/// One number of a pair of binary16.
__device__ inline float low_half(std::uint32_t word) {
  float value;
  asm("{.reg .b16 low, high;\nmov.b32 {low, high}, %1;\ncvt.f32.f16 %0, low;}" : "=f"(value) : "r"(word));
  return value;
}
__device__ inline float high_half(std::uint32_t word) {
  float value;
  asm("{.reg .b16 low, high;\nmov.b32 {low, high}, %1;\ncvt.f32.f16 %0, high;}" : "=f"(value) : "r"(word));
  return value;
}

// --- products of one warp ---------------------------------------------------------------------------------------------

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

// --- wgmma ------------------------------------------------------------------------------------------------------------

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

}  // namespace rocmforge::hopper
