// Attention of one query row a sequence over a latent plane, for Hopper: latent_decode_TYPE_DIMS, then latent_merge_VALUES.
// All heads of a sequence share the plane, so they are the rows of the matrix units: a work-group takes 32 heads and one
// piece of the sequence's keys. A warp copies the next tile of 64 keys in bulk meanwhile. Each of the eight warps multiplies
// 16 keys with 16 heads, half of whose elements it keeps in registers, then an eighth of the values with all weights; a key's
// row is read from memory once. The pieces' parts are added up by a second launch.

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
  static constexpr int steps = dims / 16;        ///< of a score
  static constexpr int held_steps = steps / 2;  ///< of which q stays in registers
  static_assert(dims % 32 == 0 && warp_values % 16 == 0);
};
constexpr int halves = latent_tile_heads / 16;

/// One work-group's keys.
struct LatentPiece {
  int sequence;
  int row;
  int begin;
  int end;      ///< begin: nothing to do
  bool is_old;  ///< none of the keys is of this step

  __device__ explicit LatentPiece(const LatentDecodeArgs& args) {
    sequence = args.first_sequence + static_cast<int>(blockIdx.z);
    row = args.query_offsets[sequence];
    const bool computed = args.query_offsets[sequence + 1] - row == 1;
    const int keys = computed ? args.kv_lengths[sequence] : 0;
    const int piece = latent_piece_keys(keys);
    begin = min(static_cast<int>(blockIdx.x) * piece, keys);
    end = min(begin + piece, keys);
    is_old = end < keys;
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
  float weight[2];           ///< this lane's part, of the rows of the warp's own half
  std::uint32_t held[C::held_steps][4];
  std::int32_t blocks[2];  ///< of keys lane and lane + 32 of the tile that is fetched next

  [[nodiscard]] __device__ int own_half() const { return warp / latent_key_groups; }
  [[nodiscard]] __device__ int own_keys() const { return warp % latent_key_groups * 16; }

  [[nodiscard]] __device__ char* tile_at(int tile) const {
    return memory + C::shared.keys + tile % 2 * latent_tile_keys * C::shared.row_bytes;
  }
  [[nodiscard]] __device__ std::uint64_t* barrier_of(int tile) const {
    return reinterpret_cast<std::uint64_t*>(memory + C::shared.barriers) + tile % 2;
  }
  [[nodiscard]] __device__ int keys_of(int tile) const {
    return min(latent_tile_keys, piece.end - piece.begin - tile * latent_tile_keys);
  }

  /// Finds the blocks of the next tile's keys: an array of the step, which may be read at any time.
  __device__ void look_up(int tile) {
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      const int key = piece.begin + tile * latent_tile_keys + lane + j * 32;
      blocks[j] = key < piece.end
                      ? args.block_tables[std::int64_t{piece.sequence} * args.max_blocks + (key >> args.block_shift)]
                      : 0;
    }
  }

  /// By the first warp.
  __device__ void fetch(int tile) {
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
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      if (const int i = lane + j * 32; i < count) {
        const std::int64_t from =
            blocks[j] * args.block_elems + ((first + i) & ((1 << args.block_shift) - 1)) * C::dims;
        copy_bytes(tile_at(tile) + i * C::shared.row_bytes, static_cast<const T*>(args.plane) + from, bytes,
                   barrier_of(tile));
      }
    }
    look_up(tile + 1);
  }

  [[nodiscard]] __device__ float4 load_quad(const float* from) const {
    return args.q_aligned != 0 ? *reinterpret_cast<const float4*>(from) : float4{from[0], from[1], from[2], from[3]};
  }

  __device__ void begin() {
    constexpr int quads = C::dims / 4;
    constexpr int threads = latent_decode_warps * 32;
    constexpr int each = latent_tile_heads * quads / threads;
    static_assert(each * threads == latent_tile_heads * quads);
    const float* q = args.q + std::int64_t{piece.row} * args.q_stride + std::int64_t{first_head} * C::dims;
    float4 quad[each];
#pragma unroll
    for (int j = 0; j < each; ++j) {
      const int i = static_cast<int>(threadIdx.x) + j * threads;
      quad[j] = i < heads * quads ? load_quad(q + 4 * i) : float4{0.0f, 0.0f, 0.0f, 0.0f};
    }
#pragma unroll
    for (int j = 0; j < each; ++j) {
      const int i = static_cast<int>(threadIdx.x) + j * threads;
      *reinterpret_cast<uint2*>(memory + i / quads * C::shared.row_bytes + i % quads * 8) =
          uint2{pack<T>(quad[j].x, quad[j].y), pack<T>(quad[j].z, quad[j].w)};
    }
#pragma unroll
    for (int m = 0; m < halves; ++m) {
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        maximum[m][r] = -INFINITY;
        weight[r] = 0.0f;
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

  /// Where step `step` of the warp's half of q lies.
  [[nodiscard]] __device__ std::uint32_t query_at(int step) const {
    return shared_address(memory) +
           static_cast<std::uint32_t>((own_half() * 16 + lane % 16) * C::shared.row_bytes + lane / 16 * 16 + step * 32);
  }
  __device__ void hold() {
#pragma unroll
    for (int step = 0; step < C::held_steps; ++step) {
      load_matrices<false>(held[step], query_at(step));
    }
  }

  /// Scores of this warp's 16 keys with its half of the heads, in units of log2.
  __device__ void score(int tile, float (&scores)[2][4]) const {
    const std::uint32_t k =
        shared_address(tile_at(tile)) +
        static_cast<std::uint32_t>((own_keys() + lane % 8 + lane / 16 * 8) * C::shared.row_bytes + lane / 8 % 2 * 16);
    float sums[2][2][4] = {};  // every other step's, so that one product needs not wait for the one before
    const auto add = [&](int step, const std::uint32_t(&a)[4]) {
      std::uint32_t b[4];
      load_matrices<false>(b, k + static_cast<std::uint32_t>(step * 32));
      multiply<T>(sums[step % 2][0], a, b[0], b[1]);
      multiply<T>(sums[step % 2][1], a, b[2], b[3]);
    };
#pragma unroll
    for (int step = 0; step < C::held_steps; ++step) {
      add(step, held[step]);
    }
#pragma unroll 6
    for (int step = C::held_steps; step < C::steps; ++step) {
      std::uint32_t a[4];
      load_matrices<false>(a, query_at(step));
      add(step, a);
    }
    const int key = own_keys() + lane % 4 * 2;
    const int count = keys_of(tile);
#pragma unroll
    for (int n = 0; n < 2; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        scores[n][i] = key + n * 8 + i % 2 < count ? (sums[0][n][i] + sums[1][n][i]) * args.scale_log2 : -INFINITY;
      }
    }
  }

  /// Makes the scores weights of a common maximum, writes them for all warps and rescales what was added before.
  __device__ void weigh(float (&scores)[2][4]) {
    auto* maxima = reinterpret_cast<float*>(memory + C::shared.maxima);
    const int own = own_half();
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float most = fmaxf(fmaxf(scores[0][2 * r], scores[0][2 * r + 1]), fmaxf(scores[1][2 * r], scores[1][2 * r + 1]));
      most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, 1));
      most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, 2));
      if (lane % 4 == 0) {
        maxima[warp % latent_key_groups * latent_tile_heads + own * 16 + r * 8 + lane / 4] = most;
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
        for (int g = 0; g < latent_key_groups; ++g) {
          now = fmaxf(now, maxima[g * latent_tile_heads + head]);
        }
        const float keep = exp2_fast(maximum[m][r] - now);
        maximum[m][r] = now;
#pragma unroll
        for (int n = 0; n < C::out_tiles; ++n) {
          out[m][n][2 * r] *= keep;
          out[m][n][2 * r + 1] *= keep;
        }
        if (m == own) {
          weight[r] *= keep;
#pragma unroll
          for (int n = 0; n < 2; ++n) {
            const float first = exp2_fast(scores[n][2 * r] - now);
            const float second = exp2_fast(scores[n][2 * r + 1] - now);
            weight[r] += first + second;
            char* to = memory + C::shared.weights + head * latent_weight_row_bytes +
                       (own_keys() + n * 8 + lane % 4 * 2) * 2;
            *reinterpret_cast<std::uint32_t*>(to) = pack<T>(first, second);
          }
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
      float scores[2][4];
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
        if (m == own_half()) {
          float own = weight[r];
          own += __shfl_xor_sync(0xffffffffu, own, 1);
          own += __shfl_xor_sync(0xffffffffu, own, 2);
          if (lane % 4 == 0) {
            sums[warp % latent_key_groups * latent_tile_heads + head] = own;
          }
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
      for (int g = 0; g < latent_key_groups; ++g) {
        all += sums[g * latent_tile_heads + head];
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
  gpu::release_successor();
  const LatentPiece piece(args);
  if (piece.begin >= piece.end) {
    gpu::wait_for_predecessor();
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
  work.look_up(0);
  if (piece.is_old) {
    work.fetch(0);
    work.fetch(1);
  }
  gpu::wait_for_predecessor();
  if (!piece.is_old) {
    work.fetch(0);
    work.fetch(1);
  }
  work.begin();
  __syncthreads();
  work.hold();
  work.run();
  work.store();
}

/// What the pieces' parts are multiplied with, and the sum of all weights; by one warp.
__device__ inline void find_factors(const LatentDecodeArgs& args, std::int64_t first, int pieces, float* factors,
                                    float* total) {
  constexpr int each = most_pieces_of_a_sequence / 32;
  const int lane = static_cast<int>(threadIdx.x);
  float2 states[each];
  float maximum = -INFINITY;
#pragma unroll
  for (int j = 0; j < each; ++j) {
    const int i = lane + j * 32;
    states[j] = i < pieces ? reinterpret_cast<const float2*>(args.states)[first + std::int64_t{i} * args.q_heads]
                           : float2{-INFINITY, 0.0f};
    maximum = fmaxf(maximum, states[j].x);
  }
#pragma unroll
  for (int step = 1; step < 32; step *= 2) {
    maximum = fmaxf(maximum, __shfl_xor_sync(0xffffffffu, maximum, step));
  }
  float sum = 0.0f;
#pragma unroll
  for (int j = 0; j < each; ++j) {
    const float factor = exp2_fast(states[j].x - maximum);
    factors[lane + j * 32] = factor;
    sum = lane + j * 32 < pieces ? fmaf(states[j].y, factor, sum) : sum;
  }
#pragma unroll
  for (int step = 1; step < 32; step *= 2) {
    sum += __shfl_xor_sync(0xffffffffu, sum, step);
  }
  if (lane == 0) {
    *total = sum;
  }
}

/// Adds up the pieces of 128 values of a head, a warp every n-th piece. Grid: heads with their runs of values, sequences.
template <int values>
__device__ void latent_merge(const LatentDecodeArgs& args) {
  constexpr int warps = latent_merge_threads / 32;
  constexpr int runs = values / latent_merge_values;
  constexpr int columns = values / 4;
  constexpr int each = most_pieces_of_a_sequence / warps;
  __shared__ float factors[most_pieces_of_a_sequence];
  __shared__ float total;
  __shared__ float4 parts[warps][32];
  gpu::release_successor();
  const int head = static_cast<int>(blockIdx.x) / runs;
  const int sequence = args.first_sequence + static_cast<int>(blockIdx.y);
  const int row = args.query_offsets[sequence];
  const bool computed = args.query_offsets[sequence + 1] - row == 1;
  const int keys = args.kv_lengths[sequence];
  const int pieces = keys > 0 ? latent_pieces(keys) : 0;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int column = static_cast<int>(blockIdx.x) % runs * 32 + lane;
  const std::int64_t first = std::int64_t{blockIdx.y} * args.pieces * args.q_heads + head;
  gpu::wait_for_predecessor();
  if (!computed) {
    return;
  }
  float4 part[each];
#pragma unroll
  for (int j = 0; j < each; ++j) {
    const int i = warp + j * warps;
    part[j] = i < pieces
                  ? reinterpret_cast<const float4*>(args.sums)[(first + std::int64_t{i} * args.q_heads) * columns + column]
                  : float4{0.0f, 0.0f, 0.0f, 0.0f};
  }
  if (warp == 0) {
    find_factors(args, first, pieces, factors, &total);
  }
  __syncthreads();
  float4 sum{0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll
  for (int j = 0; j < each; ++j) {
    const int i = warp + j * warps;
    const float factor = i < pieces ? factors[i] : 0.0f;
    sum = float4{fmaf(part[j].x, factor, sum.x), fmaf(part[j].y, factor, sum.y), fmaf(part[j].z, factor, sum.z),
                 fmaf(part[j].w, factor, sum.w)};
  }
  parts[warp][lane] = sum;
  __syncthreads();
  if (warp > 0) {
    return;
  }
#pragma unroll
  for (int w = 1; w < warps; ++w) {
    const float4 other = parts[w][lane];
    sum = float4{sum.x + other.x, sum.y + other.y, sum.z + other.z, sum.w + other.w};
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
