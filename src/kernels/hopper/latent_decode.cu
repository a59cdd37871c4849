// Attention of one query row a sequence over a latent plane, for Hopper: latent_decode_TYPE_DIMS, then latent_merge_VALUES.
// All heads of a sequence share the plane, so they are the rows of the matrix units: a work-group takes 32 heads and one
// piece of the sequence's keys. A warp copies the next tile of 64 keys in bulk meanwhile. Each of the eight warps multiplies
// 8 keys with all heads, then an eighth of the values with all weights; a key's row is read from memory once. The pieces'
// parts are added up by a second launch, a work-group for each head.

#include "kernels/gpu/launch_order.h"
#include "kernels/hopper/latent_decode_args.h"
#include "kernels/hopper/matmul_tile.h"

namespace rocmforge::hopper {
namespace {

template <class T_, int dims_, int values_>
struct LatentShape {
  using T = T_;
  static constexpr int dims = dims_;
  static constexpr int values = values_;
  static constexpr LatentDecodeShared shared = latent_decode_shared(dims);
  static constexpr int warp_values = values / latent_decode_warps;
  static constexpr int out_tiles = warp_values / 8;
  static_assert(dims % 32 == 0 && warp_values % 16 == 0);
};
constexpr int halves = latent_tile_heads / 16;

/// One work-group's keys.
struct LatentPiece {
  int sequence;
  int row;
  int begin;
  int end;  ///< begin: nothing to do

  __device__ explicit LatentPiece(const LatentDecodeArgs& args) {
    sequence = args.first_sequence + static_cast<int>(blockIdx.z);
    row = args.query_offsets[sequence];
    const bool computed = args.query_offsets[sequence + 1] - row == 1;
    const int keys = computed ? args.kv_lengths[sequence] : 0;
    const int piece = latent_piece_keys(keys);
    begin = min(static_cast<int>(blockIdx.x) * piece, keys);
    end = min(begin + piece, keys);
  }
};

template <class C>
struct LatentDecode {
  using T = typename C::T;
  const LatentDecodeArgs& args;
  const LatentPiece& piece;
  char* memory;
  int warp;
  int lane;
  int first_head;
  int heads;
  float out[halves][C::out_tiles][4];
  float maximum[halves][2];  ///< of rows lane / 4 and 8 further on
  float weight[halves][2];   ///< this lane's part

  [[nodiscard]] __device__ char* tile_at(int tile) const {
    return memory + C::shared.keys + tile % 2 * latent_tile_keys * C::shared.row_bytes;
  }
  [[nodiscard]] __device__ std::uint64_t* barrier_of(int tile) const {
    return reinterpret_cast<std::uint64_t*>(memory + C::shared.barriers) + tile % 2;
  }
  [[nodiscard]] __device__ int keys_of(int tile) const {
    return min(latent_tile_keys, piece.end - piece.begin - tile * latent_tile_keys);
  }

  /// By the first warp.
  __device__ void fetch(int tile) const {
    const int count = keys_of(tile);
    if (warp != 0 || count <= 0) {
      return;
    }
    constexpr std::uint32_t bytes = C::dims * 2;
    if (lane == 0) {
      barrier_expect(barrier_of(tile), static_cast<std::uint32_t>(count) * bytes);
    }
    __syncwarp();
    const int first = piece.begin + tile * latent_tile_keys;
    for (int i = lane; i < count; i += 32) {
      const int key = first + i;
      const std::int64_t entry = std::int64_t{piece.sequence} * args.max_blocks + (key >> args.block_shift);
      const std::int64_t from =
          args.block_tables[entry] * args.block_elems + (key & ((1 << args.block_shift) - 1)) * C::dims;
      copy_bytes(tile_at(tile) + i * C::shared.row_bytes, static_cast<const T*>(args.plane) + from, bytes, barrier_of(tile));
    }
  }

  __device__ void begin() {
    constexpr int pairs = C::dims / 2;
    const float* q = args.q + std::int64_t{piece.row} * args.q_stride + std::int64_t{first_head} * C::dims;
    for (int i = static_cast<int>(threadIdx.x); i < latent_tile_heads * pairs; i += latent_decode_warps * 32) {
      const int head = i / pairs;
      const int pair = i % pairs;
      const float2 value =
          head < heads ? *reinterpret_cast<const float2*>(q + head * C::dims + 2 * pair) : float2{0.0f, 0.0f};
      *reinterpret_cast<std::uint32_t*>(memory + head * C::shared.row_bytes + pair * 4) = pack<T>(value.x, value.y);
    }
#pragma unroll
    for (int m = 0; m < halves; ++m) {
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        maximum[m][r] = -INFINITY;
        weight[m][r] = 0.0f;
      }
#pragma unroll
      for (int n = 0; n < C::out_tiles; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          out[m][n][i] = 0.0f;
        }
      }
    }
  }

  /// Scores of this warp's 8 keys with all heads, in units of log2.
  __device__ void score(int tile, float (&scores)[halves][4]) const {
    const std::uint32_t q =
        shared_address(memory) + static_cast<std::uint32_t>(lane % 16 * C::shared.row_bytes + lane / 16 * 16);
    const std::uint32_t k = shared_address(tile_at(tile)) +
                            static_cast<std::uint32_t>((warp * 8 + lane % 8) * C::shared.row_bytes + lane / 8 * 16);
#pragma unroll 6
    for (int step = 0; step < C::dims / 32; ++step) {
      std::uint32_t b[4];
      load_matrices<false>(b, k + static_cast<std::uint32_t>(step * 64));
#pragma unroll
      for (int m = 0; m < halves; ++m) {
        const std::uint32_t rows = q + static_cast<std::uint32_t>(m * 16 * C::shared.row_bytes + step * 64);
        std::uint32_t a[4];
        load_matrices<false>(a, rows);
        multiply<T>(scores[m], a, b[0], b[1]);
        load_matrices<false>(a, rows + 32);
        multiply<T>(scores[m], a, b[2], b[3]);
      }
    }
    const int key = warp * 8 + lane % 4 * 2;
    const int count = keys_of(tile);
#pragma unroll
    for (int m = 0; m < halves; ++m) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        scores[m][i] = key + i % 2 < count ? scores[m][i] * args.scale_log2 : -INFINITY;
      }
    }
  }

  /// Makes the scores weights of a common maximum, writes them for all warps and rescales what was added before.
  __device__ void weigh(float (&scores)[halves][4]) {
    auto* maxima = reinterpret_cast<float*>(memory + C::shared.maxima);
#pragma unroll
    for (int m = 0; m < halves; ++m) {
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        float most = fmaxf(scores[m][2 * r], scores[m][2 * r + 1]);
        most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, 1));
        most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, 2));
        if (lane % 4 == 0) {
          maxima[warp * latent_tile_heads + m * 16 + r * 8 + lane / 4] = most;
        }
      }
    }
    __syncthreads();
#pragma unroll
    for (int m = 0; m < halves; ++m) {
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const int head = m * 16 + r * 8 + lane / 4;
        float now = maximum[m][r];
#pragma unroll
        for (int w = 0; w < latent_decode_warps; ++w) {
          now = fmaxf(now, maxima[w * latent_tile_heads + head]);
        }
        const float keep = exp2_fast(maximum[m][r] - now);
        maximum[m][r] = now;
        const float first = exp2_fast(scores[m][2 * r] - now);
        const float second = exp2_fast(scores[m][2 * r + 1] - now);
        weight[m][r] = weight[m][r] * keep + (first + second);
        char* to = memory + C::shared.weights + head * latent_weight_row_bytes + (warp * 8 + lane % 4 * 2) * 2;
        *reinterpret_cast<std::uint32_t*>(to) = pack<T>(first, second);
#pragma unroll
        for (int n = 0; n < C::out_tiles; ++n) {
          out[m][n][2 * r] *= keep;
          out[m][n][2 * r + 1] *= keep;
        }
      }
    }
    __syncthreads();
  }

  /// Adds all weights times this warp's values.
  __device__ void add_values(int tile) {
    const std::uint32_t weights = shared_address(memory + C::shared.weights) +
                                  static_cast<std::uint32_t>(lane % 16 * latent_weight_row_bytes + lane / 16 * 16);
    const std::uint32_t v =
        shared_address(tile_at(tile)) +
        static_cast<std::uint32_t>(lane % 16 * C::shared.row_bytes + (warp * C::warp_values + lane / 16 * 8) * 2);
#pragma unroll
    for (int step = 0; step < latent_tile_keys / 16; ++step) {
      std::uint32_t a[halves][4];
#pragma unroll
      for (int m = 0; m < halves; ++m) {
        load_matrices<false>(a[m], weights + static_cast<std::uint32_t>(m * 16 * latent_weight_row_bytes + step * 32));
      }
#pragma unroll
      for (int n = 0; n < C::out_tiles; n += 2) {
        std::uint32_t b[4];
        load_matrices<true>(b, v + static_cast<std::uint32_t>(step * 16 * C::shared.row_bytes + n * 16));
#pragma unroll
        for (int m = 0; m < halves; ++m) {
          multiply<T>(out[m][n], a[m], b[0], b[1]);
          multiply<T>(out[m][n + 1], a[m], b[2], b[3]);
        }
      }
    }
  }

  __device__ void run() {
    const int tiles = (piece.end - piece.begin + latent_tile_keys - 1) / latent_tile_keys;
    for (int tile = 0; tile < tiles; ++tile) {
      barrier_wait(barrier_of(tile), static_cast<std::uint32_t>(tile / 2 % 2));
      if (const int count = keys_of(tile); count < latent_tile_keys) {  // values of no key must not be what was there before
        const int words = (latent_tile_keys - count) * C::shared.row_bytes / 4;
        auto* rest = reinterpret_cast<std::uint32_t*>(tile_at(tile) + count * C::shared.row_bytes);
        for (int i = static_cast<int>(threadIdx.x); i < words; i += latent_decode_warps * 32) {
          rest[i] = 0;
        }
        __syncthreads();
      }
      float scores[halves][4] = {};
      score(tile, scores);
      weigh(scores);
      add_values(tile);
      __syncthreads();
      fetch(tile + 2);
    }
  }

  __device__ void store() {
    auto* sums = reinterpret_cast<float*>(memory + C::shared.sums);
    const std::int64_t part = (std::int64_t{blockIdx.z} * args.pieces + blockIdx.x) * args.q_heads + first_head;
#pragma unroll
    for (int m = 0; m < halves; ++m) {
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const int head = m * 16 + r * 8 + lane / 4;
        float own = weight[m][r];
        own += __shfl_xor_sync(0xffffffffu, own, 1);
        own += __shfl_xor_sync(0xffffffffu, own, 2);
        if (lane % 4 == 0) {
          sums[warp * latent_tile_heads + head] = own;
        }
        if (head >= heads) {
          continue;
        }
        float* to = args.sums + (part + head) * C::values + warp * C::warp_values + lane % 4 * 2;
#pragma unroll
        for (int n = 0; n < C::out_tiles; ++n) {
          *reinterpret_cast<float2*>(to + n * 8) = float2{out[m][n][2 * r], out[m][n][2 * r + 1]};
        }
        if (warp == 0 && lane % 4 == 0) {
          args.states[(part + head) * 2] = maximum[m][r];
        }
      }
    }
    __syncthreads();
    if (const int head = static_cast<int>(threadIdx.x); head < heads) {
      float all = 0.0f;
#pragma unroll
      for (int w = 0; w < latent_decode_warps; ++w) {
        all += sums[w * latent_tile_heads + head];
      }
      args.states[(part + head) * 2 + 1] = all;
    }
  }
};

/// Grid: pieces, tiles of heads, sequences.
template <class C>
__device__ void latent_decode(const LatentDecodeArgs& args) {
  extern __shared__ __align__(128) char memory[];
  auto* barriers = reinterpret_cast<std::uint64_t*>(memory + C::shared.barriers);
  if (threadIdx.x == 0) {
    barrier_init(&barriers[0], 1);
    barrier_init(&barriers[1], 1);
    barrier_init_fence();
  }
  __syncthreads();
  gpu::begin_dependent();
  const LatentPiece piece(args);
  if (piece.begin >= piece.end) {
    return;
  }
  const int first_head = static_cast<int>(blockIdx.y) * latent_tile_heads;
  LatentDecode<C> work{args,
                       piece,
                       memory,
                       static_cast<int>(threadIdx.x) / 32,
                       static_cast<int>(threadIdx.x) % 32,
                       first_head,
                       min(latent_tile_heads, args.q_heads - first_head)};
  work.fetch(0);
  work.fetch(1);
  work.begin();
  __syncthreads();
  work.run();
  work.store();
}

/// Adds up the pieces of a head, neighbouring groups of threads every n-th piece. Grid: heads, sequences.
template <int values>
__device__ void latent_merge(const LatentDecodeArgs& args) {
  constexpr int columns = values / 4;
  constexpr int groups = latent_merge_threads / columns;
  constexpr int most = latent_merge_threads / 4;  // pieces: see latent_piece_keys
  __shared__ float factors[most];
  __shared__ float weights[most];
  __shared__ float4 parts[groups][columns];
  gpu::begin_dependent();
  const int head = static_cast<int>(blockIdx.x);
  const int sequence = args.first_sequence + static_cast<int>(blockIdx.y);
  const int row = args.query_offsets[sequence];
  if (args.query_offsets[sequence + 1] - row != 1) {
    return;
  }
  const int keys = args.kv_lengths[sequence];
  const int pieces = keys > 0 ? latent_pieces(keys) : 0;
  const int thread = static_cast<int>(threadIdx.x);
  const std::int64_t first = std::int64_t{blockIdx.y} * args.pieces * args.q_heads + head;
  if (thread < pieces) {
    const float2 state = reinterpret_cast<const float2*>(args.states)[first + std::int64_t{thread} * args.q_heads];
    factors[thread] = state.x;
    weights[thread] = state.y;
  }
  __syncthreads();
  float maximum = -INFINITY;
  for (int i = 0; i < pieces; ++i) {
    maximum = fmaxf(maximum, factors[i]);
  }
  float total = 0.0f;
  for (int i = 0; i < pieces; ++i) {
    total = fmaf(weights[i], exp2_fast(factors[i] - maximum), total);
  }
  const int column = thread % columns;
  float4 sum{0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll 4
  for (int i = thread / columns; i < pieces; i += groups) {
    const float4 part =
        reinterpret_cast<const float4*>(args.sums)[(first + std::int64_t{i} * args.q_heads) * columns + column];
    const float factor = exp2_fast(factors[i] - maximum);
    sum = float4{fmaf(part.x, factor, sum.x), fmaf(part.y, factor, sum.y), fmaf(part.z, factor, sum.z),
                 fmaf(part.w, factor, sum.w)};
  }
  parts[thread / columns][column] = sum;
  __syncthreads();
  if (thread >= columns) {
    return;
  }
#pragma unroll
  for (int g = 1; g < groups; ++g) {
    const float4 part = parts[g][column];
    sum = float4{sum.x + part.x, sum.y + part.y, sum.z + part.z, sum.w + part.w};
  }
  const float scale = total > 0.0f ? 1.0f / total : 0.0f;
  reinterpret_cast<float4*>(args.out)[(std::int64_t{row} * args.q_heads + head) * columns + column] =
      float4{sum.x * scale, sum.y * scale, sum.z * scale, sum.w * scale};
}

}  // namespace
}  // namespace rocmforge::hopper

using namespace rocmforge;

#define ROCMFORGE_LATENT_DECODE(name, type, dims, values)                                    \
  extern "C" __global__ void __launch_bounds__(hopper::latent_decode_warps * 32, 1)          \
      latent_decode_##name##_##dims(const __grid_constant__ hopper::LatentDecodeArgs args) { \
    hopper::latent_decode<hopper::LatentShape<type, dims, values>>(args);                    \
  }
#define ROCMFORGE_LATENT_MERGE(values)                                               \
  extern "C" __global__ void __launch_bounds__(hopper::latent_merge_threads)         \
      latent_merge_##values(const __grid_constant__ hopper::LatentDecodeArgs args) { \
    hopper::latent_merge<values>(args);                                              \
  }

ROCMFORGE_LATENT_DECODE(f16, half, 576, 512)
ROCMFORGE_LATENT_DECODE(bf16, bfloat16, 576, 512)
ROCMFORGE_LATENT_DECODE(f16, half, 320, 256)
ROCMFORGE_LATENT_DECODE(bf16, bfloat16, 320, 256)
ROCMFORGE_LATENT_MERGE(512)
ROCMFORGE_LATENT_MERGE(256)
