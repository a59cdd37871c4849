// Attention of one query row a sequence over a latent plane, for Hopper: latent_decode_TYPE_DIMS, then latent_merge_VALUES
// or latent_merge_few_VALUES (latent_merge.h).
// All heads of a sequence share the plane: a work-group takes 24 (32) heads and one piece of the sequence's keys. In the
// matrix products keys, and then values, are the rows and heads the columns, in eights. Keys are copied in bulk, 32 at a
// time, into a ring of five such stages, and multiplied 64 at a time: each of sixteen warps multiplies 16 keys with all
// heads along a quarter of the dimensions, whose part of q it keeps in registers; half a warp adds up the quarters of a head
// and computes their weights; then each warp multiplies a sixteenth of the values with all weights. A key's row is read from
// memory once, and from shared memory once as a key and once as a value. A second launch adds up the parts of the pieces.

#include "kernels/attention/hopper/latent_merge.h"
#include "kernels/tile/hopper/barrier.h"
#include "kernels/tile/hopper/copy.h"
#include "kernels/tile/hopper/mma.h"
#include "kernels/tile/hopper/pairs.h"
#include "kernels/tile/hopper/shared.h"
#include "kernels/tile/hopper/wgmma.h"
#include "kernels/tile/launch_order.h"

namespace rocmforge::hopper {
namespace {

template <class T_, int dims_, int values_>
struct LatentShape {
  using T = T_;
  static constexpr int dims = dims_;
  static constexpr int values = values_;
  static constexpr LatentDecodeShared shared = latent_decode_shared(dims);
  static constexpr int heads = latent_tile_heads(dims);
  static constexpr int head_tiles = heads / 8;
  static constexpr int steps = dims / 16 / latent_dim_parts;  ///< of a warp's part of a score
  static constexpr int warp_values = values / latent_decode_warps;
  static constexpr int value_tiles = warp_values / 16;
  static_assert(steps * latent_dim_parts * 16 == dims && value_tiles * latent_decode_warps * 16 == values);
  static_assert(heads <= 2 * latent_decode_warps);  // half a warp for the weights of each
};
constexpr int decode_threads = latent_decode_warps * 32;
constexpr int ahead = 3;  ///< steps of a score whose keys are loaded ahead at a time
static_assert(latent_stage_keys == 32 && latent_tile_keys == 16 * 4);  // a key a lane; four keys a lane of half a warp

/// One work-group's keys.
struct LatentPiece {
  int sequence;
  int row;
  int keys;  ///< of the sequence; the last one is of this step
  int begin;
  int end;  ///< equal to `begin`: nothing to do

  __device__ explicit LatentPiece(const LatentDecodeArgs& args) {
    sequence = args.first_sequence + static_cast<int>(blockIdx.z);
    row = args.query_offsets[sequence];
    const int kv_length = args.kv_lengths[sequence];  // loaded together with the offsets
    const bool computed = args.query_offsets[sequence + 1] - row == 1;
    keys = computed ? kv_length : 0;
    const LatentCut cut = latent_cut(keys);
    const int piece = static_cast<int>(blockIdx.x);
    begin = cut.begin(piece, keys);
    end = cut.begin(piece + 1, keys);
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
  float out[C::value_tiles][C::head_tiles][4];  ///< values as rows, heads as columns
  std::uint32_t q[C::steps][C::head_tiles][2];  ///< of the warp's part of the dimensions
  // Of the head whose weights this half of a warp makes.
  float maximum = -INFINITY;
  float weight = 0.0f;                ///< this lane's part of the sum
  std::int32_t blocks[latent_fills];  ///< of this lane's keys of the tiles that are copied next

  [[nodiscard]] __device__ int own_keys() const { return warp % latent_key_groups * 16; }
  [[nodiscard]] __device__ int own_part() const { return warp / latent_key_groups; }
  [[nodiscard]] __device__ int own_head() const { return warp * 2 + lane / 16; }

  // --- copies

  [[nodiscard]] __device__ int stages() const {
    return (piece.end - piece.begin + latent_stage_keys - 1) / latent_stage_keys;
  }
  [[nodiscard]] __device__ static std::uint32_t slot_of(int stage) {
    return static_cast<std::uint32_t>(stage) % latent_stages;
  }
  [[nodiscard]] __device__ char* stage_at(int stage) const { return memory + slot_of(stage) * C::shared.stage_bytes; }
  /// Where a key of a tile lies.
  [[nodiscard]] __device__ char* key_at(int tile, int key) const {
    const auto place = static_cast<std::uint32_t>(key);
    return stage_at(tile * latent_stages_of_tile + static_cast<int>(place / latent_stage_keys)) +
           place % latent_stage_keys * C::shared.row_bytes;
  }
  [[nodiscard]] __device__ std::uint64_t* barrier_of(int stage) const {
    return reinterpret_cast<std::uint64_t*>(memory + C::shared.barriers) + slot_of(stage);
  }
  [[nodiscard]] __device__ int keys_of(int tile) const {
    return min(latent_tile_keys, piece.end - piece.begin - tile * latent_tile_keys);
  }

  // Each warp copies four rows of a tile, a row a lane, so that none is late for the products. A tile begins at any stage.

  [[nodiscard]] __device__ int stage_from(int first) const { return first + warp / latent_warps_of_stage; }
  [[nodiscard]] __device__ int key_from(int first) const {
    return piece.begin + first * latent_stage_keys + warp * latent_rows_of_warp + lane;
  }
  /// The block of this lane's key of the tile: read from an array of the step, which may be read at any time.
  [[nodiscard]] __device__ std::int32_t look_up(int first) const {
    const int key = key_from(first);
    return lane < latent_rows_of_warp && key < piece.end
               ? args.block_tables[std::int64_t{piece.sequence} * args.max_blocks + (key >> args.block_shift)]
               : 0;
  }
  /// Begins to copy the stages of a tile that are below `limit`. `with_newest`: include the step's own row, which the
  /// kernels before this one write.
  __device__ void fetch(int first, std::int32_t of_lane, int limit, bool with_newest) {
    const int stage = stage_from(first);
    if (stage >= min(limit, stages())) {
      return;
    }
    if (warp % latent_warps_of_stage == 0 && lane == 0) {
      const int count = min(latent_stage_keys, piece.end - piece.begin - stage * latent_stage_keys);
      barrier_expect(barrier_of(stage), static_cast<std::uint32_t>(count * C::dims * 2));
    }
    const int key = key_from(first);
    if (lane < latent_rows_of_warp && key < piece.end && (with_newest || key != piece.keys - 1)) {
      copy_row(stage, key, of_lane);
    }
  }
  __device__ void copy_row(int stage, int key, std::int32_t of_lane) {
    const std::int64_t from = of_lane * args.block_elems + (key & ((1 << args.block_shift) - 1)) * C::dims;
    const int row = warp % latent_warps_of_stage * latent_rows_of_warp + lane;
    const bool once = gridDim.y == 1;  // then the parts of pieces should stay in the L2 cache
    copy_bytes_read(once, stage_at(stage) + row * C::shared.row_bytes, static_cast<const T*>(args.plane) + from, C::dims * 2,
                    barrier_of(stage));
  }

  // The ring is filled in the order of need, because memory serves requests in their order: first the first tile except for
  // the step's own row, as its other rows are older than the kernels before this one; then q; then the rest. A short piece
  // has two tiles at most, and no other work-group follows on its multiprocessor: both tiles may come before q.

  [[nodiscard]] __device__ bool is_short() const { return stages() <= 2 * latent_stages_of_tile && gridDim.z == 1; }
  __device__ void fetch_old() {
#pragma unroll
    for (int i = 0; i < latent_fills; ++i) {
      blocks[i] = look_up(i * latent_stages_of_tile);
    }
    fetch(0, blocks[0], latent_stages, false);
    if (is_short()) {
      fetch(latent_stages_of_tile, blocks[1], latent_stages, false);
    }
  }
  __device__ void fetch_newest() {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      if (const int key = key_from(i * latent_stages_of_tile);
          lane < latent_rows_of_warp && key < piece.end && key == piece.keys - 1 && (i == 0 || is_short())) {
        copy_row(stage_from(i * latent_stages_of_tile), key, blocks[i]);
      }
    }
  }
  __device__ void fetch_others() {
#pragma unroll
    for (int i = 1; i < latent_fills; ++i) {
      if (i > 1 || !is_short()) {
        fetch(i * latent_stages_of_tile, blocks[i], latent_stages, true);
      }
    }
    blocks[0] = look_up(latent_stages);
  }
  /// Fetches the tile that replaces one that has been multiplied.
  __device__ void fetch_next(int first) {
    fetch(first, blocks[0], stages(), true);
    blocks[0] = look_up(first + latent_stages_of_tile);
  }

  // --- q

  static constexpr int q_quads = C::dims / 4;
  static constexpr int quads_of_thread = (C::heads * q_quads + decode_threads - 1) / decode_threads;

  /// This thread's quads of q, zeros after the last head; all loads are issued together.
  template <class Load>
  __device__ void load_quads(float4 (&quads)[quads_of_thread], const Load& load) const {
#pragma unroll
    for (int j = 0; j < quads_of_thread; ++j) {
      const int i = static_cast<int>(threadIdx.x) + j * decode_threads;
      quads[j] = i < heads * q_quads ? load(4 * i) : float4{0.0f, 0.0f, 0.0f, 0.0f};
    }
  }

  /// Loads q through shared memory into registers while the rest of the ring is filled, and zeros the sums.
  __device__ void begin() {
    const float* from = args.q + std::int64_t{piece.row} * args.q_stride + std::int64_t{first_head} * C::dims;
    float4 quad[quads_of_thread];
    if (args.q_aligned != 0) {
      load_quads(quad, [&](int at) { return *reinterpret_cast<const float4*>(from + at); });
    } else {
      load_quads(quad, [&](int at) { return float4{from[at], from[at + 1], from[at + 2], from[at + 3]}; });
    }
    fetch_others();
    char* rows = memory + C::shared.q;
#pragma unroll
    for (int j = 0; j < quads_of_thread; ++j) {
      const int i = static_cast<int>(threadIdx.x) + j * decode_threads;
      if (i < C::heads * q_quads) {
        *reinterpret_cast<uint2*>(rows + i / q_quads * C::shared.row_bytes + i % q_quads * 8) =
            uint2{pack_pair<T>(quad[j].x, quad[j].y), pack_pair<T>(quad[j].z, quad[j].w)};
      }
    }
    __syncthreads();
    const std::uint32_t own =
        shared_address(rows) +
        static_cast<std::uint32_t>(lane % 8 * C::shared.row_bytes + lane / 8 % 2 * 16 + own_part() * C::steps * 32);
#pragma unroll
    for (int step = 0; step < C::steps; ++step) {
#pragma unroll
      for (int n = 0; n < C::head_tiles; ++n) {
        load_matrices(q[step][n], own + static_cast<std::uint32_t>(n * 8 * C::shared.row_bytes + step * 32));
      }
    }
    __syncthreads();  // parts of scores overwrite q
#pragma unroll
    for (int m = 0; m < C::value_tiles; ++m) {
#pragma unroll
      for (int n = 0; n < C::head_tiles; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          out[m][n][i] = 0.0f;
        }
      }
    }
  }

  // --- a tile

  /// Waits until all keys of the tile have arrived, and zeros those after the last key: a weight of zero times old memory
  /// could be NaN.
  __device__ void wait_for(int tile) {
    for (int stage = tile * latent_stages_of_tile; stage < min((tile + 1) * latent_stages_of_tile, stages()); ++stage) {
      barrier_wait(barrier_of(stage), static_cast<std::uint32_t>(stage) / latent_stages % 2);
    }
    if (const int count = keys_of(tile); count < latent_tile_keys) {
#pragma unroll 1
      for (int key = count + warp; key < latent_tile_keys; key += latent_decode_warps) {
#pragma unroll 1
        for (int i = lane; i < C::shared.row_bytes / 16; i += 32) {
          reinterpret_cast<uint4*>(key_at(tile, key))[i] = uint4{0, 0, 0, 0};
        }
      }
      __syncthreads();
    }
  }

  /// The scores of the warp's 16 keys, as far as its part of the dimensions goes.
  __device__ void score(int tile) const {
    const std::uint32_t k = shared_address(key_at(tile, own_keys() + lane % 16)) +
                            static_cast<std::uint32_t>(lane / 16 * 16 + own_part() * C::steps * 32);
    float sums[C::head_tiles][4] = {};
    std::uint32_t a[ahead][4];
#pragma unroll
    for (int step = 1 - ahead; step < C::steps; ++step) {
      if (const int next = step + ahead - 1; next < C::steps) {
        load_matrices<false>(a[next % ahead], k + static_cast<std::uint32_t>(next * 32));
      }
      if (step >= 0) {
#pragma unroll
        for (int n = 0; n < C::head_tiles; ++n) {
          multiply<T>(sums[n], a[step % ahead], q[step][n][0], q[step][n][1]);
        }
      }
    }
    char* to =
        memory + C::shared.q + (own_part() * C::heads + lane % 4 * 2) * latent_score_row_bytes + (own_keys() + lane / 4) * 4;
#pragma unroll
    for (int n = 0; n < C::head_tiles; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        *reinterpret_cast<float*>(to + (n * 8 + i % 2) * latent_score_row_bytes + i / 2 * 32) = sums[n][i];
      }
    }
  }

  /// Adds up the parts of a head's scores and makes weights of them, relative to the maximum so far: four keys a lane.
  __device__ void weigh(int tile) {
    if (warp * 2 >= C::heads) {
      return;
    }
    const int first = lane % 16 * 4;
    const char* from = memory + C::shared.q + own_head() * latent_score_row_bytes + first * 4;
    float4 part[latent_dim_parts];
#pragma unroll
    for (int p = 0; p < latent_dim_parts; ++p) {
      part[p] = *reinterpret_cast<const float4*>(from + p * C::heads * latent_score_row_bytes);
    }
    static_assert(latent_dim_parts == 4);
    float scores[4] = {(part[0].x + part[1].x) + (part[2].x + part[3].x), (part[0].y + part[1].y) + (part[2].y + part[3].y),
                       (part[0].z + part[1].z) + (part[2].z + part[3].z), (part[0].w + part[1].w) + (part[2].w + part[3].w)};
    const int count = keys_of(tile);
    float now = maximum;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      scores[i] = first + i < count ? __fmul_rn(scores[i], args.scale_log2) : -INFINITY;
      now = fmaxf(now, scores[i]);
    }
#pragma unroll
    for (int step = 1; step < 16; step *= 2) {
      now = fmaxf(now, __shfl_xor_sync(0xffffffffu, now, step));
    }
    const float keep = exp2_fast(maximum - now);
    maximum = now;
    float e[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      e[i] = exp2_fast(__fsub_rn(scores[i], now));
    }
    weight = __fmaf_rn(weight, keep, (e[0] + e[1]) + (e[2] + e[3]));
    *reinterpret_cast<uint2*>(memory + C::shared.weights + own_head() * latent_weight_row_bytes + first * 2) =
        uint2{pack_pair<T>(e[0], e[1]), pack_pair<T>(e[2], e[3])};
    if (lane % 16 == 0) {
      reinterpret_cast<float*>(memory + C::shared.keep)[own_head()] = keep;
    }
  }

  /// Rescales the earlier sums and adds all weights times this warp's values.
  __device__ void add_values(int tile) {
    const auto* keep = reinterpret_cast<const float*>(memory + C::shared.keep) + lane % 4 * 2;
#pragma unroll
    for (int n = 0; n < C::head_tiles; ++n) {
      const float2 factor = *reinterpret_cast<const float2*>(keep + n * 8);
#pragma unroll
      for (int m = 0; m < C::value_tiles; ++m) {
        out[m][n][0] *= factor.x;
        out[m][n][1] *= factor.y;
        out[m][n][2] *= factor.x;
        out[m][n][3] *= factor.y;
      }
    }
    const std::uint32_t weights = shared_address(memory + C::shared.weights) +
                                  static_cast<std::uint32_t>(lane % 8 * latent_weight_row_bytes + lane / 8 * 16);
    const auto v_offset = static_cast<std::uint32_t>((warp * C::warp_values + lane / 8 % 2 * 8) * 2);
#pragma unroll
    for (int stage = 0; stage < latent_stages_of_tile; ++stage) {  // of two steps of 16 keys
      std::uint32_t b[C::head_tiles][4];
#pragma unroll
      for (int n = 0; n < C::head_tiles; ++n) {
        load_matrices<false>(b[n], weights + static_cast<std::uint32_t>(n * 8 * latent_weight_row_bytes + stage * 64));
      }
      const std::uint32_t v = shared_address(key_at(tile, stage * latent_stage_keys + lane / 16 * 8 + lane % 8)) + v_offset;
#pragma unroll
      for (int step = 0; step < 2; ++step) {
#pragma unroll
        for (int m = 0; m < C::value_tiles; ++m) {
          std::uint32_t a[4];
          load_matrices<true>(a, v + static_cast<std::uint32_t>(step * 16 * C::shared.row_bytes + m * 32));
#pragma unroll
          for (int n = 0; n < C::head_tiles; ++n) {
            multiply<T>(out[m][n], a, b[n][2 * step], b[n][2 * step + 1]);
          }
        }
      }
    }
  }

  __device__ void run() {
    const int tiles = (piece.end - piece.begin + latent_tile_keys - 1) / latent_tile_keys;
    for (int tile = 0; tile < tiles; ++tile) {
      wait_for(tile);
      score(tile);
      __syncthreads();
      weigh(tile);
      __syncthreads();
      add_values(tile);
      // The next tile's scores overwrite scores that all warps have read; its weights follow a barrier.
      if (const int next = tile * latent_stages_of_tile + latent_stages; next < stages()) {
        __syncthreads();
        fetch_next(next);
      }
    }
#pragma unroll
    for (int step = 1; step < 16; step *= 2) {
      weight += __shfl_xor_sync(0xffffffffu, weight, step);
    }
  }

  // --- the end of the piece

  __device__ void store() {
    const std::int64_t part = (std::int64_t{blockIdx.z} * args.pieces + blockIdx.x) * args.q_heads + first_head;
    float* to = args.sums + part * C::values + warp * C::warp_values + lane / 4;
#pragma unroll
    for (int n = 0; n < C::head_tiles; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if (const int head = n * 8 + lane % 4 * 2 + i % 2; head < heads) {
#pragma unroll
          for (int m = 0; m < C::value_tiles; ++m) {
            to[head * C::values + m * 16 + i / 2 * 8] = out[m][n][i];
          }
        }
      }
    }
    if (lane % 16 == 0 && own_head() < heads) {
      reinterpret_cast<float2*>(args.states)[part + own_head()] = float2{maximum, weight};
    }
  }
};

/// Grid: pieces, tiles of heads, sequences.
template <class C>
__device__ void latent_decode(const LatentDecodeArgs& args) {
  extern __shared__ __align__(128) char memory[];
  auto* barriers = reinterpret_cast<std::uint64_t*>(memory + C::shared.barriers);
  if (threadIdx.x == 0) {
#pragma unroll
    for (int i = 0; i < latent_stages; ++i) {
      barrier_init(&barriers[i], latent_stage_arrivals);
    }
    barrier_init_fence();
  }
  __syncthreads();
  gpu::release_successor();
  const LatentPiece piece(args);
  if (piece.begin >= piece.end) {
    gpu::wait_for_predecessor();
    return;
  }
  const int first_head = static_cast<int>(blockIdx.y) * C::heads;
  LatentDecode<C> work{args,
                       piece,
                       memory,
                       static_cast<int>(threadIdx.x) / 32,
                       static_cast<int>(threadIdx.x) % 32,
                       first_head,
                       min(C::heads, args.q_heads - first_head)};
  work.fetch_old();
  gpu::wait_for_predecessor();
  work.fetch_newest();
  work.begin();
  work.run();
  work.store();
}

}  // namespace
}  // namespace rocmforge::hopper

using namespace rocmforge;

#define ROCMFORGE_LATENT_DECODE(name, type, dims, values)                                    \
  extern "C" __global__ void __launch_bounds__(hopper::latent_decode_warps * 32, 1)          \
      latent_decode_##name##_##dims(const __grid_constant__ hopper::LatentDecodeArgs args) { \
    hopper::latent_decode<hopper::LatentShape<type, dims, values>>(args);                    \
  }
#define ROCMFORGE_LATENT_MERGE(values)                                                   \
  extern "C" __global__ void __launch_bounds__(hopper::latent_merge_threads)             \
      latent_merge_##values(const __grid_constant__ hopper::LatentDecodeArgs args) {     \
    hopper::latent_merge<values>(args);                                                  \
  }                                                                                      \
  extern "C" __global__ void __launch_bounds__(hopper::latent_merge_threads)             \
      latent_merge_few_##values(const __grid_constant__ hopper::LatentDecodeArgs args) { \
    hopper::latent_merge_few<values>(args);                                              \
  }

ROCMFORGE_LATENT_DECODE(f16, half, 576, 512)
ROCMFORGE_LATENT_DECODE(bf16, bfloat16, 576, 512)
ROCMFORGE_LATENT_DECODE(f16, half, 320, 256)
ROCMFORGE_LATENT_DECODE(bf16, bfloat16, 320, 256)
ROCMFORGE_LATENT_MERGE(512)
ROCMFORGE_LATENT_MERGE(256)
