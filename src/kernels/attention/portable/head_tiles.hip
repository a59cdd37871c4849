// Products with a matrix for each head and many tokens, on matrix tiles: head_tile_FORMAT.
//
// A work-group computes head_tile_tokens tokens x head_tile_rows rows of one head, a chunk of k at a time. Heads are short
// (k of 128 to 512), so that a call is bound by latency: the weights of the first chunk are loaded before the predecessor
// has ended, all loads of a chunk are issued together, and those of the next chunk before the current one is multiplied. The
// sums of steps of 16 along k alternate between two accumulators in every call: a token's bits do not depend on the other
// tokens of the call.
//
// Activations are converted without a scale. Only when a work-group has found one that binary16 might not hold
// (needs_half_scale) does it find the largest of each row and compute its tile again, with such rows divided by half_scale.

#include "kernels/attention/portable/latent_args.h"
#include "kernels/matmul/portable/matmul.h"

using namespace rocmforge;
using rocmforge::gpu::BlockCoded;
using rocmforge::gpu::HeadProductArgs;

namespace rocmforge::gpu {
namespace {

template <int chunk>
struct HeadTileShared {
  static constexpr int stride = chunk + row_padding;
  alignas(16) std::uint16_t x[head_tile_tokens * stride];
  alignas(16) std::uint16_t weights[head_tile_rows * stride];
  float scales[head_tile_tokens];    ///< x = row * scale
  float inverses[head_tile_tokens];  ///< 1 / scale, exactly
  std::int32_t beyond;               ///< a row needs a scale
};

/// Brings memory into the cache that all work-groups share; nothing waits for it.
__device__ inline void prefetch(const std::uint8_t* from, std::int64_t bytes) {
#if !ROCMFORGE_DEVICE_AMD
  constexpr int line = 128;
  for (std::int64_t i = std::int64_t{thread_index()} * line; i < bytes; i += head_tile_threads * line) {
    asm volatile("prefetch.global.L2 [%0];" ::"l"(from + i));
  }
#else
  static_cast<void>(from);
  static_cast<void>(bytes);
#endif
}

/// The same number, hidden from the compiler, so that values derived from it (the places of a unit in all formats that share
/// a kernel) are not computed ahead of a loop.
template <class Block>
__device__ inline int computed_late(int number) {
#if !ROCMFORGE_DEVICE_AMD
  if constexpr (__is_same(Block, BlockCoded)) {
    asm volatile("" : "+r"(number));
  }
#endif
  return number;
}

template <class Block, class Element>
struct HeadTile {
  using Strips = WeightStrips<Block>;
  using Tile = MatrixTile<Element>;
  /// Elements of k in a chunk, by the size of a thread's registers for 16 of them: two work-groups share a multiprocessor.
  static constexpr int chunk = sizeof(typename Strips::Raw) > 48 || __is_same(Block, BlockCoded) ? 128 : 192;
  using Shared = HeadTileShared<chunk>;
  static constexpr int stride = Shared::stride;
  static constexpr int waves = head_tile_threads / wave_size;
  static constexpr int row_waves = head_tile_rows / 16;
  static constexpr int token_tiles = head_tile_tokens / 16 * row_waves / waves;  ///< of a wave
  /// A thread takes every fourth strip of one row of weights, and every sixteenth piece of four floats of two tokens of x.
  static constexpr int lanes_of_row = head_tile_threads / head_tile_rows;
  static constexpr int thread_strips = chunk / strip_elems / lanes_of_row;
  static constexpr int lanes_of_token = 16;
  static constexpr int token_pieces = chunk / 4 / lanes_of_token;
  static constexpr int lines_of_x = head_tile_threads / lanes_of_token;
  static constexpr int thread_tokens = head_tile_tokens / lines_of_x;
  static constexpr int multiply_step = 64;  ///< of k, whose operands are read together
  static_assert(chunk % (strip_elems * lanes_of_row) == 0 && chunk % multiply_step == 0);
  static_assert(token_tiles >= 1 && waves % row_waves == 0 && head_tile_tokens <= wave_size);
  static_assert(sizeof(Shared) <= 48 << 10);

  const HeadProductArgs& args;
  int head;
  int first_row;
  std::int64_t first_token;
  int tokens;  ///< of this tile
  const float* x;
  const std::uint8_t* weights;  ///< of the tile's first row

  struct Loads {
    typename Strips::Raw weights[thread_strips];
    float4 x[thread_tokens][token_pieces];
  };

  __device__ explicit HeadTile(const HeadProductArgs& call) : args(call) {
    head = static_cast<int>(blockIdx.y);
    first_row = static_cast<int>(blockIdx.x) * head_tile_rows;
    first_token = std::int64_t{blockIdx.z} * head_tile_tokens;
    const std::int64_t left = args.tokens - first_token;
    tokens = left < head_tile_tokens ? static_cast<int>(left) : head_tile_tokens;
    x = args.x + first_token * args.x_stride + std::int64_t{head} * (args.k + args.tail);
    weights = args.weight + head * args.head_bytes + first_row * args.row_bytes;
  }

  /// Whether any of the tile's tokens is wanted: each lane looks at one. The same in all waves.
  __device__ bool is_wanted() const {
    if (args.sequence_of == nullptr) {
      return true;
    }
    std::uint32_t wanted = 0;
    if (lane_index() < tokens) {
      const std::int32_t sequence = args.sequence_of[first_token + lane_index()];
      wanted = args.query_offsets[sequence + 1] - args.query_offsets[sequence] == 1 ? 1 : 0;
    }
    return wave_max(wanted) != 0;
  }

  __device__ static int strip_of(int i) { return thread_index() % lanes_of_row + i * lanes_of_row; }
  __device__ static int own_row() { return thread_index() / lanes_of_row; }
  __device__ static int piece_of(int i) { return thread_index() % lanes_of_token + i * lanes_of_token; }
  __device__ static int token_of(int t) { return thread_index() / lanes_of_token + t * lines_of_x; }

  __device__ void load_weights(int first, Loads& loads) const {
    const std::uint8_t* const from[] = {weights + min(own_row(), args.n - 1 - first_row) * args.row_bytes};
#pragma unroll
    for (int i = 0; i < thread_strips; ++i) {
      const int strip_index = computed_late<Block>(first / strip_elems + strip_of(i));
      if (strip_index * strip_elems < args.k) {
        typename Strips::Raw raw[1];
        load_units<Strips>(args, from, Strips::unit_of(strip_index), raw);
        loads.weights[i] = raw[0];
      }
    }
  }

  /// Prefetches the rows that this work-group reads, after the first chunk.
  __device__ void prefetch_weights() const {
    if (args.k > chunk) {
      const std::int64_t rows = min(head_tile_rows, args.n - first_row);
      prefetch(weights, rows * args.row_bytes);
    }
  }

  __device__ void load_x(int first, Loads& loads) const {
#pragma unroll
    for (int t = 0; t < thread_tokens; ++t) {
      const float* row = x + token_of(t) * args.x_stride;
#pragma unroll
      for (int i = 0; i < token_pieces; ++i) {
        const int element = first + 4 * piece_of(i);
        float4 four{0.0f, 0.0f, 0.0f, 0.0f};
        if (token_of(t) < tokens && args.x_aligned != 0) {
          if (element < args.k) {
            four = *reinterpret_cast<const float4*>(row + element);
          }
        } else if (token_of(t) < tokens) {
          four.x = element < args.k ? row[element] : 0.0f;
          four.y = element + 1 < args.k ? row[element + 1] : 0.0f;
          four.z = element + 2 < args.k ? row[element + 2] : 0.0f;
          four.w = element + 3 < args.k ? row[element + 3] : 0.0f;
        }
        loads.x[t][i] = four;
      }
    }
  }

  __device__ static void store_x(const Loads& loads, Shared& shared) {
#pragma unroll
    for (int t = 0; t < thread_tokens; ++t) {
      const float factor = __is_same(Element, half) ? shared.inverses[token_of(t)] : 1.0f;
      float largest = 0.0f;
#pragma unroll
      for (int i = 0; i < token_pieces; ++i) {
        const float4& four = loads.x[t][i];
        largest = fmaxf(fmaxf(fmaxf(largest, fabsf(four.x)), fmaxf(fabsf(four.y), fabsf(four.z))), fabsf(four.w));
        *reinterpret_cast<uint2*>(shared.x + token_of(t) * stride + 4 * piece_of(i)) = uint2{
            pack_pair<Element>(four.x * factor, four.y * factor), pack_pair<Element>(four.z * factor, four.w * factor)};
      }
      if (__is_same(Element, half) && needs_half_scale(largest)) {
        shared.beyond = 1;
      }
    }
  }

  __device__ void store_weights(int first, const Loads& loads, Shared& shared) const {
#pragma unroll
    for (int i = 0; i < thread_strips; ++i) {
      const int strip_index = first / strip_elems + strip_of(i);
      std::uint16_t* to = shared.weights + own_row() * stride + strip_elems * strip_of(i);
      if (strip_index * strip_elems < args.k) {
        store_strip<Strips, Element>(loads.weights[i], Strips::part_of(strip_index), to);
      } else {
        reinterpret_cast<uint4*>(to)[0] = uint4{0, 0, 0, 0};
        reinterpret_cast<uint4*>(to)[1] = uint4{0, 0, 0, 0};
      }
    }
  }

  __device__ static int row_of_wave() { return wave_index() % row_waves * 16; }
  __device__ static int token_of_wave() { return wave_index() / row_waves * token_tiles * 16; }

  using Sums = typename Tile::C[2][token_tiles];

  /// Adds one chunk of `elems` elements, which are followed by zeros.
  __device__ void multiply(const Shared& shared, int elems, Sums& sums) const {
    const auto* rows = reinterpret_cast<const Element*>(shared.weights) + row_of_wave() * stride;
    const auto* activations = reinterpret_cast<const Element*>(shared.x) + token_of_wave() * stride;
    for (int k = 0; k < elems; k += multiply_step) {
#pragma unroll
      for (int s = 0; s < multiply_step / 16; ++s) {
        const typename Tile::B b = Tile::load_b_shared(rows + k + 16 * s, stride);
#pragma unroll
        for (int t = 0; t < token_tiles; ++t) {
          if (token_of_wave() + 16 * t < tokens) {
            Tile::multiply(sums[s & 1][t], Tile::load_a_shared(activations + 16 * t * stride + k + 16 * s, stride), b);
          }
        }
      }
    }
  }

  /// Computes the scales of the rows; called by all threads.
  __device__ void find_scales(Shared& shared) const {
    for (int token = wave_index(); token < tokens; token += waves) {
      const float* row = x + token * args.x_stride;
      float largest = 0.0f;
      for (int k = lane_index(); k < args.k; k += wave_size) {
        largest = fmaxf(largest, fabsf(row[k]));
      }
      largest = wave_reduce<Max>(largest);
      if (lane_index() == 0) {
        const float scale = half_scale(largest);
        shared.scales[token] = scale;
        shared.inverses[token] = 1.0f / scale;
      }
    }
    __syncthreads();
  }

  __device__ float* out_row(int token) const {
    return args.out + ((first_token + token) * gridDim.y + head) * (args.n + args.tail);
  }

  /// Copies the tails of all tokens, which are divided among the head's work-groups.
  __device__ void copy_tail() const {
    for (int i = static_cast<int>(blockIdx.x) * head_tile_threads + thread_index(); i < tokens * args.tail;
         i += static_cast<int>(gridDim.x) * head_tile_threads) {
      const int token = i / args.tail;
      const int at = i % args.tail;
      out_row(token)[args.n + at] = x[token * args.x_stride + args.k + at];
    }
  }

  __device__ void run(Shared& shared) const {
    Loads loads;
    load_weights(0, loads);
    prefetch_weights();
    if (thread_index() < head_tile_tokens) {
      shared.scales[thread_index()] = 1.0f;
      shared.inverses[thread_index()] = 1.0f;
    }
    if (thread_index() == 0) {
      shared.beyond = 0;
    }
    const bool wanted = is_wanted();
    __syncthreads();
    wait_for_predecessor();
    if (!wanted) {
      return;
    }
    load_x(0, loads);
    copy_tail();
    Sums sums;
    for (bool scaled = false;; scaled = true) {
#pragma unroll
      for (int t = 0; t < token_tiles; ++t) {
        sums[0][t] = Tile::zero();
        sums[1][t] = Tile::zero();
      }
      for (int first = 0; first < args.k; first += chunk) {
        store_x(loads, shared);
        store_weights(first, loads, shared);
        if (first + chunk < args.k) {
          load_weights(first + chunk, loads);
          load_x(first + chunk, loads);
        }
        __syncthreads();
        multiply(shared, min(chunk, args.k - first), sums);
        __syncthreads();
      }
      if (scaled || shared.beyond == 0) {
        break;
      }
      find_scales(shared);
      load_weights(0, loads);
      load_x(0, loads);
    }
#pragma unroll
    for (int t = 0; t < token_tiles; ++t) {
#pragma unroll
      for (int i = 0; i < Tile::c_elems; ++i) {
        const int token = token_of_wave() + 16 * t + Tile::c_row(i);
        const int row = first_row + row_of_wave() + Tile::c_col(i);
        if (token < tokens && row < args.n) {
          out_row(token)[row] = (sums[0][t][i] + sums[1][t][i]) * shared.scales[token];
        }
      }
    }
  }
};

/// Work-groups that a multiprocessor should hold: with two, a call with more of them than multiprocessors takes one round,
/// and they wait for memory at different times. Formats that share a kernel need a few registers more than two work-groups
/// leave them; AMD's compute units have enough registers.
template <class Block>
inline constexpr int head_tile_groups = ROCMFORGE_DEVICE_AMD || __is_same(Block, BlockCoded) ? 1 : 2;

template <class Block, class Element>
__device__ __forceinline__ void head_tile(const HeadProductArgs& args) {
  release_successor();  // weights and the arrays of a step are read before the predecessor has ended
  using Tile = HeadTile<Block, Element>;
  __shared__ typename Tile::Shared shared;
  Tile(args).run(shared);
}

}  // namespace
}  // namespace rocmforge::gpu

#define ROCMFORGE_HEAD_TILE(format, Block, Element, rows)                                  \
  ROCMFORGE_KERNEL __launch_bounds__(gpu::head_tile_threads, gpu::head_tile_groups<Block>) \
      head_tile_##format(HeadProductArgs args) {                                           \
    gpu::head_tile<Block, Element>(args);                                                  \
  }

ROCMFORGE_MATMUL_TILE_FORMATS(ROCMFORGE_HEAD_TILE)
ROCMFORGE_MATMUL_CODED(ROCMFORGE_HEAD_TILE)
