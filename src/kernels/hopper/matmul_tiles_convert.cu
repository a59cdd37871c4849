// Activations as the tiles read them: normalised where asked for, of binary16, in swizzled boxes, in the order that
// dequantised weights have along k.

#include "kernels/gpu/device_code.h"
#include "kernels/gpu/launch_order.h"
#include "kernels/hopper/experts_args.h"
#include "kernels/hopper/matmul_dequantize.h"
#include "kernels/hopper/matmul_tiles_args.h"

namespace rocmforge::hopper {
namespace {

constexpr float most_half = 32768.0f;

struct Columns {
  float x[8];
};

/// Columns `at` to at + 7 of a row, zeros from k on.
__device__ inline Columns load_columns(const TilesConvertArgs& args, const float* row, int at) {
  Columns columns{};
  if (args.x_aligned != 0 && at + 8 <= args.k) {
    const float4 low = *reinterpret_cast<const float4*>(row + at);
    const float4 high = *reinterpret_cast<const float4*>(row + at + 4);
    columns = {{low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w}};
  } else {
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      if (at + i < args.k) {
        columns.x[i] = row[at + i];
      }
    }
  }
  return columns;
}

__device__ inline float squares(const Columns& columns) {
  float sum = 0.0f;
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    sum += columns.x[i] * columns.x[i];
  }
  return sum;
}

__device__ inline void weigh(const TilesConvertArgs& args, int at, Columns& columns) {
  if (args.norm_weight != nullptr) {
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      columns.x[i] *= at + i < args.k ? args.norm_weight[at + i] : 0.0f;
    }
  }
}

__device__ inline float largest(const Columns& columns) {
  float most = 0.0f;
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    most = fmaxf(most, fabsf(columns.x[i]));
  }
  return most;
}

/// Four lanes with four words each: word i of lane j goes to lane i, as its word j.
__device__ inline void transpose(std::uint32_t (&words)[4], int lane) {
  std::uint32_t received[4];  // from lane ^ i
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int j = lane % 4 ^ i;
    received[i] = gpu::shuffle_xor(j == 0 ? words[0] : j == 1 ? words[1] : j == 2 ? words[2] : words[3], i);
  }
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    const int i = lane % 4 ^ j;
    words[j] = i == 0 ? received[0] : i == 1 ? received[1] : i == 2 ? received[2] : received[3];
  }
}

/// A lane has 8 columns and, after the exchange with its three neighbours, writes every fourth chunk of its block of 32. All
/// lanes of a warp take part.
__device__ inline void store_columns(const TilesConvertArgs& args, int token, int at, const Columns& columns, float factor) {
  std::uint32_t words[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int element = i / 2 * 4 + i % 2;
    words[i] = pack<half>(columns.x[element] * factor, columns.x[element + 2] * factor);
  }
  transpose(words, at / 8);
  if (at < args.padded_k) {
    const int row = token % args.tile_tokens;
    const int chunk = at % tiles_box_columns / 32 * 4 + at / 8 % 4;
    const std::int64_t box =
        static_cast<std::int64_t>(token / args.tile_tokens) * (args.padded_k / tiles_box_columns) + at / tiles_box_columns;
    *reinterpret_cast<uint4*>(args.boxes + (box * args.tile_tokens + row) * 128 + (chunk ^ row % 8) * 16) =
        uint4{words[0], words[1], words[2], words[3]};
  }
}

/// Writes row `token` of the boxes from `row`, or zeros from null. A work-group reads `threads` x 8 columns at a time. `kept`
/// such steps stay in registers between the passes over a row; what is longer is read again.
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

/// Of a tile of slots the rows of their tokens, or their own.
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
