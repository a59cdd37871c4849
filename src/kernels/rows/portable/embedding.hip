// Quantised rows as floats: the embedding, plain dequantisation, and dequantisation with RMSNorm. Every format of
// tensor/quant/formats.h is compiled in; the choice is the same for the whole grid.

#include "kernels/formats/formats.h"
#include "kernels/rows/portable/embedding_args.h"
#include "kernels/tile/elementwise.h"

namespace rocmforge::gpu {
namespace {

/// out[first + i] = values[i] for the elements below `count`.
__device__ void write_elements(float* out, std::int64_t first, std::int64_t count, const float (&values)[read_elems]) {
  if (first + read_elems <= count && takes_fours(out + first, 0)) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      Floats<4> four;
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        four.values[i] = values[4 * half + i];
      }
      store(out + first, half, four);
    }
  } else {
#pragma unroll
    for (int i = 0; i < read_elems; ++i) {
      if (first + i < count) {
        out[first + i] = values[i];
      }
    }
  }
}

template <class Block>
__device__ const Block* row_at(const void* rows, std::int64_t row, std::int64_t row_bytes) {
  return reinterpret_cast<const Block*>(static_cast<const std::uint8_t*>(rows) + row * row_bytes);
}

template <class Block>
__device__ __forceinline__ void embed(const EmbeddingRowsArgs& args) {
  for (std::int64_t token = blockIdx.y; token < args.tokens; token += gridDim.y) {
    std::int32_t id = args.ids[token];
    if (id < 0 && args.drawn != nullptr) {
      id = args.drawn[-1 - id];
    }
    const bool known = id >= 0 && id < args.vocab;
    const Block* row = row_at<Block>(args.table, known ? id : 0, args.row_bytes);
    const float factor = known ? args.scale : __builtin_nanf("");
    for (std::int64_t first = grid_index() * read_elems; first < args.hidden; first += grid_threads() * read_elems) {
      float values[read_elems];
      read_elements(row, first, args.hidden, values);
#pragma unroll
      for (int i = 0; i < read_elems; ++i) {
        values[i] *= factor;
        if (args.add != 0 && first + i < args.hidden) {
          values[i] += args.out[token * args.hidden + first + i];
        }
      }
      write_elements(args.out + token * args.hidden, first, args.hidden, values);
    }
  }
}

/// The format is chosen at each read: rows are read twice, and a loop for each format would be twice as much code.
__device__ __forceinline__ void read_row(const DequantizeRmsNormArgs& args, std::int64_t row, std::int64_t first,
                                         float (&values)[read_elems]) {
  visit_format(
      Formats(), args.dtype, [&]<class Block>(Block*) __attribute__((always_inline)) {
        read_elements(row_at<Block>(args.rows, row, args.row_bytes), first, args.dim, values);
      });
}

__device__ __forceinline__ void norm_rows(const DequantizeRmsNormArgs& args, float* scratch) {
  const std::int64_t stride = std::int64_t{blockDim.x} * read_elems;
  for (std::int64_t r = blockIdx.x; r < args.num_rows; r += gridDim.x) {
    float sum = 0.0f;
    for (std::int64_t first = std::int64_t{threadIdx.x} * read_elems; first < args.dim; first += stride) {
      float values[read_elems] = {};
      read_row(args, r, first, values);
#pragma unroll
      for (int i = 0; i < read_elems; ++i) {
        sum += values[i] * values[i];
      }
    }
    const float mean = block_reduce<Sum>(sum, scratch, 0.0f) / static_cast<float>(args.dim);
    const float scale = 1.0f / sqrtf(mean + args.eps);
    for (std::int64_t first = std::int64_t{threadIdx.x} * read_elems; first < args.dim; first += stride) {
      float values[read_elems] = {};
      read_row(args, r, first, values);
#pragma unroll
      for (int i = 0; i < read_elems; ++i) {
        if (first + i < args.dim) {
          values[i] *= scale * args.weight[first + i];
        }
      }
      write_elements(args.out + r * args.dim, first, args.dim, values);
    }
  }
}

}  // namespace

ROCMFORGE_KERNEL embedding_rows(EmbeddingRowsArgs args) {
  begin_dependent();
  visit_format(
      Formats(), args.dtype, [&]<class Block>(Block*) __attribute__((always_inline)) { embed<Block>(args); });
}

ROCMFORGE_KERNEL dequantize_rows(DequantizeArgs args) {
  visit_format(
      Formats(), args.dtype, [&]<class Block>(Block*) __attribute__((always_inline)) {
        for (std::int64_t first = grid_index() * read_elems; first < args.count; first += grid_threads() * read_elems) {
          float values[read_elems];
          read_elements(static_cast<const Block*>(args.rows), first, args.count, values);
          write_elements(args.out, first, args.count, values);
        }
      });
}

ROCMFORGE_KERNEL __launch_bounds__(1024, 1) dequantize_rms_norm(DequantizeRmsNormArgs args) {
  __shared__ float scratch[1024 / wave_size];
  norm_rows(args, scratch);
}

}  // namespace rocmforge::gpu
