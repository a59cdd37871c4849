// What kernels of models rely on, one thing at a time: exchanges between lanes, products of bytes and tiles, small numbers,
// scalar registers, barriers, counters of arrivals, chains of kernels, parameters. Their results are known exactly.

#include "kernels/check/check_code.h"
#include "kernels/check/instructions_args.h"
#include "kernels/tile/arrival.h"
#include "kernels/tile/tile.h"

// Architectures with kernels of their own (tools/build/build_kernels.py), whose instructions are checked too.
#if ROCMFORGE_DEVICE_AMD && \
    (defined(__gfx90a__) || defined(__gfx942__) || defined(__gfx950__) || defined(__GFX11__) || defined(__GFX12__))
#define ROCMFORGE_AMD_INSTRUCTIONS 1
#include "kernels/tile/amd/tile.h"
#else
#define ROCMFORGE_AMD_INSTRUCTIONS 0
#endif

namespace rocmforge::check_kernels {
namespace {

using gpu::lane_index;
using gpu::thread_index;

/// The value of lane (own ^ mask).
template <int mask>
__device__ std::int32_t exchanged(std::int32_t value) {
  if constexpr (mask >= gpu::wave_size) {
    return value;
  }
#if ROCMFORGE_AMD_INSTRUCTIONS
  else if constexpr (mask == 1 || mask == 2 || mask == 7 || mask == 15) {
    return amd::exchange<mask>(value);
  } else if constexpr (mask == 16 || mask == 32) {
    return __builtin_bit_cast(std::int32_t, amd::exchange_rows<mask>(__builtin_bit_cast(float, value)));
  }
#endif
  else {
    return gpu::shuffle_xor(value, mask);
  }
}

__device__ std::int32_t dot_of_bytes(std::uint32_t a, std::uint32_t b, std::int32_t sum) {
#if ROCMFORGE_AMD_INSTRUCTIONS
  return amd::dot_bytes(a, b, sum);
#else
  for (int i = 0; i < 4; ++i) {
    sum += static_cast<std::int8_t>(a >> 8 * i) * static_cast<std::int8_t>(b >> 8 * i);
  }
  return sum;
#endif
}

__device__ void sync_shared_memory() {
#if ROCMFORGE_DEVICE_AMD
  gpu::sync_shared();
#else
  __syncthreads();
#endif
}

/// Stores twice a product, added up by two multiplications.
template <class Tile>
__device__ void store_twice(const typename Tile::A& a, const typename Tile::B& b, float* out) {
  auto sums = Tile::zero();
  Tile::multiply(sums, a, b);
  Tile::multiply(sums, a, b);
  for (int i = 0; i < Tile::c_elems; ++i) {
    out[16 * Tile::c_row(i) + Tile::c_col(i)] = sums[i];
  }
}

template <class T>
__device__ void multiply_tiles(const TileArgs& args) {
  using Tile = gpu::MatrixTile<T>;
  constexpr int k = TileArgs::half_k;
  constexpr int stride = 24;  // 16-byte aligned rows
  alignas(16) __shared__ std::uint16_t memory[3][16 * stride];
  T* const shared_a = reinterpret_cast<T*>(memory[0]);
  T* const shared_b = reinterpret_cast<T*>(memory[1]);
  T* const turned_b = reinterpret_cast<T*>(memory[2]);
  const T* a = static_cast<const T*>(args.a);
  const T* b = static_cast<const T*>(args.b);
  for (int i = thread_index(); i < 16 * k; i += gpu::wave_size) {
    shared_a[i / k * stride + i % k] = a[i];
    shared_b[i / k * stride + i % k] = b[i];
    turned_b[i % k * stride + i / k] = b[i];
  }
  __syncthreads();
  auto* out = static_cast<float*>(args.out);
  store_twice<Tile>(Tile::load_a(a, k), Tile::load_b(b, k), out);
  store_twice<Tile>(Tile::load_a(a, k), Tile::load_b_k(turned_b, stride), out + 256);
  store_twice<Tile>(Tile::load_a_shared(shared_a, stride), Tile::load_b_shared(shared_b, stride), out + 2 * 256);
  store_twice<Tile>(Tile::load_a_shared(shared_a, stride), Tile::load_b_k_shared(turned_b, stride), out + 3 * 256);
}

}  // namespace

ROCMFORGE_CHECK_KERNEL check_lanes(LaneArgs args) {
  const int thread = thread_index();
  const std::int32_t value = args.in[thread];
  const std::int32_t results[LaneArgs::results] = {
      exchanged<1>(value),
      exchanged<2>(value),
      exchanged<4>(value),
      exchanged<8>(value),
      exchanged<16>(value),
      exchanged<32>(value),
      exchanged<7>(value),
      exchanged<15>(value),
      gpu::wave_reduce<gpu::Sum>(value),
      static_cast<std::int32_t>(gpu::wave_max(static_cast<std::uint32_t>(value))),
      gpu::shuffle(value, 5)};
  for (int i = 0; i < LaneArgs::results; ++i) {
    args.out[i * check_threads + thread] = results[i];
  }
}

ROCMFORGE_CHECK_KERNEL check_dots(DotArgs args) {
  for_each_element(args.count,
                   [&](std::int64_t i) { args.out[i] = dot_of_bytes(args.a[i], args.b[i], static_cast<std::int32_t>(i)); });
}

ROCMFORGE_CHECK_KERNEL check_byte_tiles(TileArgs args) {
  const auto* a = static_cast<const std::uint64_t*>(args.a);
  const auto* b = static_cast<const std::uint64_t*>(args.b);
  auto* out = static_cast<std::int32_t*>(args.out);
  constexpr int words = TileArgs::byte_k / 8;
#if ROCMFORGE_AMD_INSTRUCTIONS && ROCMFORGE_BYTE_TILES
  using Tile = amd::ByteTile;
  const int outer = lane_index() % 16;
  const int slice = lane_index() / 16;
  Tile::Sums sums{};
  for (int word = slice; word < words; word += Tile::slices) {
    sums = Tile::multiply(a[outer * words + word], b[outer * words + word], sums);
  }
  for (int i = 0; i < Tile::elems; ++i) {
    out[16 * (Tile::elems * slice + i) + outer] = sums[i];
  }
#else
  for (int i = thread_index(); i < 256; i += gpu::wave_size) {
    std::int32_t sum = 0;
    for (int word = 0; word < words; ++word) {
      const std::uint64_t left = a[i / 16 * words + word];
      const std::uint64_t right = b[i % 16 * words + word];
      sum = dot_of_bytes(static_cast<std::uint32_t>(left), static_cast<std::uint32_t>(right), sum);
      sum = dot_of_bytes(static_cast<std::uint32_t>(left >> 32), static_cast<std::uint32_t>(right >> 32), sum);
    }
    out[i] = sum;
  }
#endif
}

ROCMFORGE_CHECK_KERNEL check_half_tiles(TileArgs args) { multiply_tiles<half>(args); }
ROCMFORGE_CHECK_KERNEL check_bfloat_tiles(TileArgs args) { multiply_tiles<bfloat16>(args); }

ROCMFORGE_CHECK_KERNEL check_subnormals(SubnormalArgs args) {
  for_each_element(args.count, [&](std::int64_t i) {
    const float value = args.in[i];
    args.out[i] = value * args.factor;
    args.out[args.count + i] = value + value;
    args.out[2 * args.count + i] = gpu::to_float(__builtin_bit_cast(half, args.halves[i]));
    args.out[3 * args.count + i] = gpu::to_float(gpu::from_float<half>(value));
    args.out[4 * args.count + i] = gpu::to_float(gpu::from_float<bfloat16>(value));
  });
}

ROCMFORGE_CHECK_KERNEL check_scalars(ScalarArgs args) {
  std::uint32_t scalar = args.seed;
  const auto own = static_cast<std::uint32_t>(thread_index());
  std::uint32_t value = own;
#pragma unroll 4
  for (std::int32_t round = 0; round < args.rounds; ++round) {
    value = value * 5u + scalar;
    scalar = scalar * ChainArgs::factor + ChainArgs::term;
    value ^= value > scalar ? own + 1u : scalar;
    scalar ^= scalar >> 13;
  }
  args.out[own] = value;
}

ROCMFORGE_CHECK_KERNEL check_shared(SharedArgs args) {
  __shared__ std::uint32_t values[check_threads];
  const int thread = thread_index();
  auto value = static_cast<std::uint32_t>(thread);
#pragma unroll 1
  for (std::int32_t round = 0; round < args.rounds; ++round) {
    values[thread] = value;
    sync_shared_memory();
    value = values[(thread + SharedArgs::step) % check_threads] * 3u + 1u;
    sync_shared_memory();
  }
  args.out[thread] = value;
}

ROCMFORGE_CHECK_KERNEL check_arrivals(ArrivalArgs args) {
  args.parts[blockIdx.x * blockDim.x + threadIdx.x] = args.round + blockIdx.x;
  if (gpu::last_to_arrive(args.done, static_cast<int>(gridDim.x))) {
    std::uint32_t sum = 0;
    for (unsigned int part = threadIdx.x; part < gridDim.x * blockDim.x; part += blockDim.x) {
      sum += args.parts[part];
    }
    atomicAdd(args.sum, sum);
  }
}

ROCMFORGE_CHECK_KERNEL check_chain(ChainArgs args) {
  for_each_element(args.count,
                   [&](std::int64_t i) { args.out[args.count - 1 - i] = args.in[i] * ChainArgs::factor + ChainArgs::term; });
}

ROCMFORGE_CHECK_KERNEL check_parameters(ParameterArgs args) {
  for_each_element(ParameterArgs::count, [&](std::int64_t i) { args.out[i] = args.words[i]; });
}

}  // namespace rocmforge::check_kernels
