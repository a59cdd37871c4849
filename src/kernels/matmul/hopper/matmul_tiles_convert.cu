// Activations as the tiles read them: normalised if there is a norm, as binary16, in swizzled boxes, in the order that
// dequantised weights have along k.

#include "kernels/experts/hopper/experts_args.h"
#include "kernels/matmul/hopper/matmul_activations.h"
#include "kernels/tile/launch_order.h"

namespace rocmforge::hopper {
namespace {

constexpr float most_half = 32768.0f;

__device__ inline Columns load_columns(const TilesConvertArgs& args, const float* row, int at) {
  return hopper::load_columns(row, at, args.k, args.x_aligned != 0);
}

__device__ inline void weigh(const TilesConvertArgs& args, int at, Columns& columns) {
  if (args.norm_weight != nullptr) {
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      columns.x[i] *= at + i < args.k ? args.norm_weight[at + i] : 0.0f;
    }
  }
}

/// All lanes of a warp take part.
__device__ inline void store_columns(const TilesConvertArgs& args, int token, int at, const Columns& columns, float factor) {
  const uint4 chunk = chunk_of(columns, factor, at);
  if (at < args.padded_k) {
    const std::int64_t box = static_cast<std::int64_t>(token / args.tile_tokens) * (args.padded_k / tiles_box_columns);
    *reinterpret_cast<uint4*>(args.boxes + chunk_place(box, args.tile_tokens, token % args.tile_tokens, at)) = chunk;
  }
}

/// Writes row `token` of the boxes from `row`, or zeros from null. A work-group reads `threads` x 8 columns at a time.
/// `kept` such steps stay in registers between the passes over a row; columns beyond are read again.
template <int threads, int kept>
__device__ inline void convert_row(const TilesConvertArgs& args, int token, const float* row) {
  constexpr int step = threads * 8;
  __shared__ float scratch[threads / 32];
  const int first = static_cast<int>(threadIdx.x) * 8;
  const int end = row != nullptr ? args.k : 0;
  Columns columns[kept];
#pragma unroll
  for (int i = 0; i < kept; ++i) {
    columns[i] = first + i * step < end ? load_columns(args, row, first + i * step) : Columns{};
  }
  float factor = 1.0f;
  if (args.norm_weight != nullptr) {
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < kept; ++i) {
      sum += squares(columns[i]);
      weigh(args, first + i * step, columns[i]);
    }
    for (int at = first + kept * step; at < end; at += step) {
      sum += squares(load_columns(args, row, at));
    }
    factor = rsqrtf(gpu::block_reduce<gpu::Sum>(sum, scratch, 0.0f) / static_cast<float>(args.k) + args.norm_epsilon);
  }
  float most = 0.0f;
#pragma unroll
  for (int i = 0; i < kept; ++i) {
    most = fmaxf(most, largest(columns[i]));
  }
  for (int at = first + kept * step; at < end; at += step) {
    Columns more = load_columns(args, row, at);
    weigh(args, at, more);
    most = fmaxf(most, largest(more));
  }
  most = gpu::block_reduce<gpu::Max>(most, scratch, 0.0f) * factor;
  // 2^(exponent - 14), so that the largest number falls between 2^14 and 2^15.
  const float scale =
      most > most_half && most < gpu::infinity ? __uint_as_float((__float_as_uint(most) & 0x7f800000u) - (14u << 23)) : 1.0f;
  if (threadIdx.x == 0) {
    args.scales[token] = scale;
  }
  factor /= scale;
  const int first_of_warp = first / 256 * 256;
#pragma unroll
  for (int i = 0; i < kept; ++i) {
    if (first_of_warp + i * step < args.padded_k) {
      store_columns(args, token, first + i * step, columns[i], factor);
    }
  }
  for (int offset = kept * step; first_of_warp + offset < args.padded_k; offset += step) {
    const int at = first + offset;
    Columns more = at < end ? load_columns(args, row, at) : Columns{};
    weigh(args, at, more);
    store_columns(args, token, at, more, factor);
  }
}

template <int threads, int kept>
__device__ inline void convert(const TilesConvertArgs& args) {
  const int token = static_cast<int>(blockIdx.x);
  gpu::begin_dependent();
  for (int i = token * threads + static_cast<int>(threadIdx.x); i < args.num_arrivals;
       i += static_cast<int>(gridDim.x) * threads) {
    args.arrivals[i] = 0;
  }
  convert_row<threads, kept>(args, token, token < args.tokens ? args.x + token * args.x_stride : nullptr);
}

/// Converts, for a tile of slots, the rows of the slots' tokens, or the slots' own rows.
template <int threads, int kept>
__device__ inline void convert_slots(const ExpertConvertArgs& args) {
  gpu::begin_dependent();
  const int row = static_cast<int>(blockIdx.x);
  const int tile = row / args.rows.tile_tokens;
  if (tile >= *args.work_count) {
    return;
  }
  const gpu::ExpertTile work = args.work[tile];
  const int local = row % args.rows.tile_tokens;
  const float* from = nullptr;
  if (local < work.count) {
    from = args.rows.x + args.order[work.first + local] / args.slots_of_row * args.rows.x_stride;
  }
  convert_row<threads, kept>(args.rows, row, from);
}

}  // namespace

/// For rows of up to tiles_convert_short columns, and for longer ones.
extern "C" __global__ void __launch_bounds__(tiles_convert_threads) matmul_tiles_convert(TilesConvertArgs args) {
  convert<tiles_convert_threads, 1>(args);
}
extern "C" __global__ void __launch_bounds__(tiles_convert_long_threads) matmul_tiles_convert_long(TilesConvertArgs args) {
  convert<tiles_convert_long_threads, 2>(args);
}

extern "C" __global__ void __launch_bounds__(expert_convert_threads) expert_tiles_convert(ExpertConvertArgs args) {
  convert_slots<expert_convert_threads, 1>(args);
}
extern "C" __global__ void __launch_bounds__(tiles_convert_long_threads) expert_tiles_convert_long(ExpertConvertArgs args) {
  convert_slots<tiles_convert_long_threads, 2>(args);
}

}  // namespace rocmforge::hopper
