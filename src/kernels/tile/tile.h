#pragma once

// Matrix products of 16 x 16 x 16 tiles by one wave, on whatever matrix cores the architecture has, and by dot products
// where it has none (tile_vectors.h). No other portable file has matrix intrinsics.
//
// MatrixTile<T> for T = half and bfloat16, sums in float:
//   A, B      operands of a wave, 16 x 16 each, spread over its lanes
//   C         16 x 16 floats, c_elems of them in each lane; element i of a lane is row c_row(i), column c_col(i)
//   load_a    A[row][k] = from[row * stride + k]
//   load_b    B[k][col] = from[col * stride + k]  (rows along k, as K and weights are stored)
//   load_b_k  B[k][col] = from[k * stride + col]  (as V is stored)
//   load_a_shared, load_b_shared, load_b_k_shared  the same from shared memory alone, rows 16-byte aligned, faster
//   multiply  C += A * B
//   transposed          the A that holds the transpose of a B
//   keep, fetch         a B in memory, stored_bytes of it, 16-byte aligned: what its lanes hold, side by side
// Pointers are to shared (LDS) or global memory, 4-byte aligned for load_a and load_b with an even stride.
// Lane layouts: AMD RDNA3 and CDNA3 instruction set manuals (WMMA, MFMA); NVIDIA PTX manual, mma.m16n8k16.

#include <cstddef>

#include "kernels/tile/device_code.h"

// Vega 20, RDNA1 and RDNA2 have no matrix cores; the build can leave out those of another card, for tests.
#if ROCMFORGE_DEVICE_AMD && !defined(ROCMFORGE_MATRIX_CORES)
#if defined(__gfx906__) || defined(__GFX10__)
#define ROCMFORGE_MATRIX_CORES 0
#else
#define ROCMFORGE_MATRIX_CORES 1
#endif
#endif

#if ROCMFORGE_DEVICE_AMD && !ROCMFORGE_MATRIX_CORES
#include "kernels/tile/tile_vectors.h"
#endif

namespace rocmforge::gpu {

template <class T>
struct MatrixTile;

#if ROCMFORGE_DEVICE_AMD && !ROCMFORGE_MATRIX_CORES

#elif ROCMFORGE_DEVICE_AMD && defined(__GFX9__)  // CDNA: wave 64, MFMA 16 x 16 x 16; lane = row or column + 16 * (k / 4)

template <class T>
struct MatrixTileBase {
  static constexpr int c_elems = 4;
  static constexpr int run = 4;  ///< elements along k in a lane
  __device__ static int outer() { return lane_index() & 15; }
  __device__ static int a_row() { return outer(); }
  __device__ static int first_k() { return 4 * (lane_index() >> 4); }
  __device__ static int c_row(int i) { return 4 * (lane_index() >> 4) + i; }
  __device__ static int c_col(int) { return lane_index() & 15; }
  using C = float __attribute__((ext_vector_type(4)));
};

#elif ROCMFORGE_DEVICE_AMD && defined(__GFX12__)  // RDNA4: wave 32; lane = row or column + 16 * (k / 8)

template <class T>
struct MatrixTileBase {
  static constexpr int c_elems = 8;
  static constexpr int run = 8;
  __device__ static int outer() { return lane_index() & 15; }
  __device__ static int a_row() { return outer(); }
  __device__ static int first_k() { return 8 * (lane_index() >> 4); }
  __device__ static int c_row(int i) { return 8 * (lane_index() >> 4) + i; }
  __device__ static int c_col(int) { return lane_index() & 15; }
  using C = float __attribute__((ext_vector_type(8)));
};

#elif ROCMFORGE_DEVICE_AMD && \
    defined(__GFX11__)  // RDNA3: wave 32; each lane holds a whole row or column, both halves the same

template <class T>
struct MatrixTileBase {
  static constexpr int c_elems = 8;
  static constexpr int run = 16;
  __device__ static int outer() { return lane_index() & 15; }
  __device__ static int a_row() { return outer(); }
  __device__ static int first_k() { return 0; }
  __device__ static int c_row(int i) { return 2 * i + (lane_index() >> 4); }
  __device__ static int c_col(int) { return lane_index() & 15; }
  using C = float __attribute__((ext_vector_type(8)));
};

#endif

#if ROCMFORGE_DEVICE_AMD

/// The 16-bit type the builtins take.
template <class T>
struct MatrixElement;
template <>
struct MatrixElement<half> {
  using type = _Float16;
};
template <>
struct MatrixElement<bfloat16> {
  using type = short;
};

template <class T>
struct MatrixTile : MatrixTileBase<T> {
  using Base = MatrixTileBase<T>;
  using Element = typename MatrixElement<T>::type;
  using A = Element __attribute__((ext_vector_type(Base::run)));
  using B = A;
  using C = typename Base::C;

  __device__ static C zero() { return C{}; }
  __device__ static A load_a(const T* from, int stride) { return load_row(from + Base::a_row() * stride); }
  __device__ static B load_b(const T* from, int stride) { return load_row(from + Base::outer() * stride); }
  __device__ static B load_b_k(const T* from, int stride) {
    B b;
    const T* column = from + Base::first_k() * stride + Base::outer();
#pragma unroll
    for (int i = 0; i < Base::run; ++i) {
      b[i] = __builtin_bit_cast(Element, column[i * stride].bits);
    }
    return b;
  }
  __device__ static A load_a_shared(const T* from, int stride) { return load_row_shared(from + Base::a_row() * stride); }
  __device__ static B load_b_shared(const T* from, int stride) { return load_row_shared(from + Base::outer() * stride); }
  __device__ static B load_b_k_shared(const T* from, int stride) { return load_b_k(from, stride); }
  __device__ static A transposed(const B& b) {
#if ROCMFORGE_MATRIX_CORES
    return b;
#else
    return Base::transposed(b);
#endif
  }
  static constexpr int stored_bytes = 512;
  /// RDNA3's halves of a wave hold the same, and so do the parts of one without matrix cores.
  static constexpr int stored_lanes = stored_bytes / static_cast<int>(sizeof(B));
  __device__ static void keep(std::byte* to, const B& b) {
    if (lane_index() < stored_lanes) {
      reinterpret_cast<B*>(to)[lane_index()] = b;
    }
  }
  __device__ static B fetch(const std::byte* from) {
    return reinterpret_cast<const B*>(from)[lane_index() & (stored_lanes - 1)];
  }
  __device__ static void multiply(C& c, A a, B b) {
    [[maybe_unused]] constexpr bool is_half = sizeof(Element) == 2 && __is_same(T, half);
#if !ROCMFORGE_MATRIX_CORES
    Base::multiply(c, a, b);
#elif defined(__GFX9__)
    if constexpr (is_half) {
      c = __builtin_amdgcn_mfma_f32_16x16x16f16(a, b, c, 0, 0, 0);
    } else {
#if defined(__gfx908__)  // takes 8 steps of k at once: two of each lane's four in turn, the same of A and B
      c = __builtin_amdgcn_mfma_f32_16x16x8bf16(a.xy, b.xy, c, 0, 0, 0);
      c = __builtin_amdgcn_mfma_f32_16x16x8bf16(a.zw, b.zw, c, 0, 0, 0);
#else
      c = __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(a, b, c, 0, 0, 0);
#endif
    }
#elif defined(__GFX12__)
    if constexpr (is_half) {
      c = __builtin_amdgcn_wmma_f32_16x16x16_f16_w32_gfx12(a, b, c);
    } else {
      c = __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32_gfx12(a, b, c);
    }
#elif defined(__GFX11__)
    if constexpr (is_half) {
      c = __builtin_amdgcn_wmma_f32_16x16x16_f16_w32(a, b, c);
    } else {
      c = __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32(a, b, c);
    }
#endif
  }

 private:
  __device__ static A load_row(const T* outer) {
    A a;
    const T* row = outer + Base::first_k();
#pragma unroll
    for (int i = 0; i < Base::run; ++i) {
      a[i] = __builtin_bit_cast(Element, row[i].bits);
    }
    return a;
  }
  __device__ static A load_row_shared(const T* outer) {
    constexpr int aligned = Base::run >= 8 ? 16 : 8;
    A a;
    __builtin_memcpy(&a, __builtin_assume_aligned(outer + Base::first_k(), aligned), sizeof(a));
    return a;
  }
};

#else  // NVIDIA: mma.m16n8k16, twice for 16 columns

template <class T>
struct MatrixTile {
  static constexpr int c_elems = 8;
  struct A {
    std::uint32_t words[4];
  };
  struct alignas(16) B {
    std::uint32_t words[4];  ///< columns 0 to 7, then 8 to 15
  };
  struct C {
    float values[8];
    __device__ float& operator[](int i) { return values[i]; }
    __device__ float operator[](int i) const { return values[i]; }
  };

  /// i = 0 to 3: columns 0 to 7; 4 to 7: columns 8 to 15.
  __device__ static int c_row(int i) { return (lane_index() >> 2) + 8 * ((i >> 1) & 1); }
  __device__ static int c_col(int i) { return 8 * (i >> 2) + 2 * (lane_index() & 3) + (i & 1); }

  __device__ static C zero() { return C{}; }
  __device__ static std::uint32_t pair(const T* from) { return *reinterpret_cast<const std::uint32_t*>(from); }
  __device__ static A load_a(const T* from, int stride) {
    const T* at = from + (lane_index() >> 2) * stride + 2 * (lane_index() & 3);
    return {{pair(at), pair(at + 8 * stride), pair(at + 8), pair(at + 8 * stride + 8)}};
  }
  __device__ static B load_b(const T* from, int stride) {
    const T* at = from + (lane_index() >> 2) * stride + 2 * (lane_index() & 3);
    return {{pair(at), pair(at + 8), pair(at + 8 * stride), pair(at + 8 * stride + 8)}};
  }
  __device__ static B load_b_k(const T* from, int stride) {
    const T* at = from + 2 * (lane_index() & 3) * stride + (lane_index() >> 2);
    const auto two = [&](int k, int col) {
      return std::uint32_t{at[k * stride + col].bits} | std::uint32_t{at[(k + 1) * stride + col].bits} << 16;
    };
    return {{two(0, 0), two(8, 0), two(0, 8), two(8, 8)}};
  }
  // Lane i names row i % 8 of the 8 x 8 matrix i / 8.
  __device__ static A load_a_shared(const T* from, int stride) {
    const int lane = lane_index();
    A a;
    load_matrices<false>(a.words, from + (lane & 15) * stride + 8 * (lane >> 4));
    return a;
  }
  __device__ static B load_b_shared(const T* from, int stride) {
    const int lane = lane_index();
    B b;
    load_matrices<false>(b.words, from + ((lane & 7) + 8 * (lane >> 4)) * stride + 8 * ((lane >> 3) & 1));
    return b;
  }
  __device__ static B load_b_k_shared(const T* from, int stride) {
    const int lane = lane_index();
    B b;
    load_matrices<true>(b.words, from + (lane & 15) * stride + 8 * (lane >> 4));
    return b;
  }
  __device__ static A transposed(const B& b) { return {{b.words[0], b.words[2], b.words[1], b.words[3]}}; }
  static constexpr int stored_bytes = 512;
  __device__ static void keep(std::byte* to, const B& b) { reinterpret_cast<B*>(to)[lane_index()] = b; }
  __device__ static B fetch(const std::byte* from) { return reinterpret_cast<const B*>(from)[lane_index()]; }
  __device__ static void multiply(C& c, const A& a, const B& b) {
    half_product(&c.values[0], a, b.words[0], b.words[1]);
    half_product(&c.values[4], a, b.words[2], b.words[3]);
  }

 private:
  template <bool transposed>
  __device__ static void load_matrices(std::uint32_t* words, const T* row) {
    const auto address = static_cast<std::uint32_t>(__cvta_generic_to_shared(row));
    if constexpr (transposed) {
      asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                   : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                   : "r"(address)
                   : "memory");
    } else {
      asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                   : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                   : "r"(address)
                   : "memory");
    }
  }

  __device__ static void half_product(float* c, const A& a, std::uint32_t b0, std::uint32_t b1) {
    if constexpr (sizeof(T) == 2 && __is_same(T, half)) {
      asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
          : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
          : "r"(a.words[0]), "r"(a.words[1]), "r"(a.words[2]), "r"(a.words[3]), "r"(b0), "r"(b1));
    } else {
      asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
          : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
          : "r"(a.words[0]), "r"(a.words[1]), "r"(a.words[2]), "r"(a.words[3]), "r"(b0), "r"(b1));
    }
  }
};

#endif

}  // namespace rocmforge::gpu
