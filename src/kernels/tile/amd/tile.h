#pragma once

// Instructions that have no name in HIP's language: integer products of four bytes and of tiles, exchanges between lanes,
// sums in shared memory. No other file of the family has any.

#include <type_traits>

#include "kernels/tile/device_code.h"
#include "kernels/tile/device_memory.h"
#include "kernels/tile/matmul_bytes.h"

namespace rocmforge::amd {

using gpu::sync_shared;

/// Waves that a SIMD should hold at least: two work-groups of matvec_threads on the four SIMDs of a WGP or CU.
#if defined(__GFX9__)
#define ROCMFORGE_MATVEC_WAVES 2
#else
#define ROCMFORGE_MATVEC_WAVES 8
#endif

/// Whether each of these waves may have more than 128 registers. RDNA3 has 1,536 of them a lane and SIMD, but for its
/// smaller chips, whose generic target is compiled for all.
#if defined(__GFX11__) && !defined(__gfx1100__) && !defined(__gfx1101__) && !defined(__gfx1151__)
inline constexpr bool has_many_registers = false;
#else
inline constexpr bool has_many_registers = true;
#endif

/// sum + the products of the signed bytes of a and b.
__device__ inline int dot_bytes(std::uint32_t a, std::uint32_t b, int sum) {
#if defined(__GFX9__)
  return __builtin_amdgcn_sdot4(static_cast<int>(a), static_cast<int>(b), sum, false);
#else
  return __builtin_amdgcn_sudot4(true, static_cast<int>(a), true, static_cast<int>(b), sum, false);
#endif
}

/// Byte i of a word with its sign; as a cast to a narrow integer it would take one more shift.
__device__ inline int signed_byte(std::uint32_t word, int i) {
  return __builtin_amdgcn_sbfe(static_cast<int>(word), static_cast<unsigned>(8 * i), 8u);
}

/// Entry c of the table for each byte c < 16 of a word. As gpu::look_up, without its product, which takes four times as long
/// as other operations.
__device__ inline std::uint32_t look_up(const gpu::SignedTable& table, std::uint32_t codes) {
  const std::uint32_t select = codes & 0x07070707u;
  const std::uint32_t low = __builtin_amdgcn_perm(table.words[1], table.words[0], select);
  const std::uint32_t high = __builtin_amdgcn_perm(table.words[3], table.words[2], select);
  const std::uint32_t upper = __builtin_amdgcn_perm(0u, 0u, (codes >> 3 & 0x01010101u) | 0x0c0c0c0cu);  // 12: 0, 13: 255
  return (low & ~upper) | (high & upper);
}

/// Two floats, which CDNA computes with at once.
using Pair = float __attribute__((ext_vector_type(2)));

template <int control>
__device__ inline int exchanged(int value) {
  return __builtin_amdgcn_update_dpp(0, value, control, 0xf, 0xf, true);
}

/// The value of lane (own ^ mask) of a group of sixteen: mask 1, 2, 7 or 15.
template <int mask>
__device__ inline int exchange(int value) {
  static_assert(mask == 1 || mask == 2 || mask == 7 || mask == 15);
  // quad_perm [1,0,3,2], [2,3,0,1]; row_half_mirror, row_mirror
  constexpr int control = mask == 1 ? 0xb1 : mask == 2 ? 0x4e : mask == 7 ? 0x141 : 0x140;
  return exchanged<control>(value);
}
template <int mask>
__device__ inline float exchange(float value) {
  return __builtin_bit_cast(float, exchange<mask>(__builtin_bit_cast(int, value)));
}

/// The value of lane (own ^ mask): mask 16, or 32 in waves of 64.
template <int mask>
__device__ inline float exchange_rows(float value) {
  static_assert(mask == 16 || (mask == 32 && gpu::wave_size == 64));
  const int bits = __builtin_bit_cast(int, value);
#if defined(__GFX9__)
  return __builtin_bit_cast(float, __builtin_amdgcn_ds_bpermute(4 * (gpu::lane_index() ^ mask), bits));
#else
  const auto own = static_cast<unsigned>(bits);
  return __builtin_bit_cast(float, __builtin_amdgcn_permlanex16(0u, own, 0x76543210u, 0xfedcba98u, false, false));
#endif
}

/// Where matrix instructions multiply signed bytes, eight of a lane at a time, and faster than dot products do: RDNA4, and
/// CDNA behind gfx90a.
#if (defined(__GFX9__) && !defined(__gfx90a__)) || defined(__GFX12__)
#define ROCMFORGE_BYTE_TILES 1
/// Sums of 16 x 16 outputs over slices of k. Lane l has eight bytes of row (of A) or column (of B) l % 16 in slice l / 16;
/// element g of its sums is row (elems * (l / 16) + g), column l % 16.
struct ByteTile {
  static constexpr int slices = gpu::wave_size / 16;
  static constexpr int elems = 16 / slices;
  using Sums = int __attribute__((ext_vector_type(elems)));
  using Operand = std::uint64_t;
  __device__ static Sums multiply(Operand a, Operand b, Sums sums) {
#if defined(__GFX9__)
    return __builtin_amdgcn_mfma_i32_16x16x32_i8(static_cast<long>(a), static_cast<long>(b), sums, 0, 0, 0);
#else
    using Bytes = int __attribute__((ext_vector_type(2)));
    return __builtin_amdgcn_wmma_i32_16x16x16_iu8_w32_gfx12(true, __builtin_bit_cast(Bytes, a), true,
                                                            __builtin_bit_cast(Bytes, b), sums, false);
#endif
  }
};
#else
#define ROCMFORGE_BYTE_TILES 0
#endif

/// The same number; tells the compiler that it is the same for the whole wave.
__device__ inline int uniform(int value) { return __builtin_amdgcn_readfirstlane(value); }

/// A pointer to memory that is known not to be shared memory.
template <class T>
using Global = gpu::DeviceMemory<T>;
using GlobalBytes = Global<const std::uint8_t>;

/// Stores a value of one or two bytes to global memory. After a store that may be to shared memory the compiler would wait
/// for all loads in flight.
template <class T>
__device__ inline void store_at(T* to, T value) {
  using Bits = std::conditional_t<sizeof(T) == 1, std::uint8_t, std::uint16_t>;
  *(Global<Bits>)to = __builtin_bit_cast(Bits, value);
}

/// An address that is the same for the whole wave: it stays in scalar registers, and what lanes add to it is an offset.
__device__ inline GlobalBytes uniform(const std::uint8_t* address) {
  const auto bits = reinterpret_cast<std::uintptr_t>(address);
  const auto low = static_cast<std::uint32_t>(uniform(static_cast<int>(bits)));
  const auto high = static_cast<std::uint32_t>(uniform(static_cast<int>(bits >> 32)));
  return (GlobalBytes)(std::uintptr_t{high} << 32 | low);
}

/// A T `lane + offset` bytes behind a uniform address; `lane` differs between lanes, `offset` is a constant.
template <class T>
__device__ inline T load_at(GlobalBytes address, unsigned lane, int offset) {
  asm volatile("" : "+v"(lane));  // not widened ahead of a loop: the instruction widens it
  return *reinterpret_cast<const T*>((const std::uint8_t*)(address + lane + offset));  // the compiler sees the address space
}

/// The lane's number, opaque to the compiler: values derived from it are not computed earlier and kept.
__device__ inline int lane_here() {
  int lane = gpu::lane_index();
  asm volatile("" : "+v"(lane));
  return lane;
}

/// A point that the compiler's scheduler moves nothing across.
__device__ inline void schedule_barrier() { __builtin_amdgcn_sched_barrier(0); }

/// Separates computations before this point from loads after it: a load may then take the registers of the operands.
template <int rows, int count, class T>
__device__ inline void compute_here(T (&values)[rows][count]) {
#pragma unroll
  for (auto& row : values) {
#pragma unroll
    for (T& value : row) {
      asm volatile("" : "+v"(value));
    }
  }
  schedule_barrier();
}

/// *to += value in shared memory, which no other thread accesses meanwhile.
__device__ inline void add_shared(float* to, float value) {
  __hip_atomic_fetch_add(to, value, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_WAVEFRONT);
}

/// The kernel's only argument in the launch's memory, so that indexing one of its arrays needs no copy of the array.
template <class Args>
__device__ inline const Args& argument_of_kernel() {
  return *(const Args*)__builtin_amdgcn_kernarg_segment_ptr();  // the cast leaves the constant address space
}

/// The same arguments, reloaded: values that were read from them before this place need no registers meanwhile.
template <class Args>
__device__ inline const Args& read_again(const Args& args) {
  auto* from = (const __attribute__((address_space(4))) Args*)&args;
  asm volatile("" : "+s"(from));
  return *(const Args*)from;
}

/// Keeps a loaded value alive until here.
__device__ inline void keep(const uint4& value) {
  asm volatile("" ::"v"(value.x), "v"(value.y), "v"(value.z), "v"(value.w));
}

}  // namespace rocmforge::amd
