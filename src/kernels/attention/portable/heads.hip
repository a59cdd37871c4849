// Products with a matrix for each head: head_products_FORMAT, head_product_FORMAT for one token. Groups of tokens go through
// the products of matvec.h, where a token's sums have the same order in every group. A head's matrix is read again for each
// group: it is small enough to stay in a cache.

#include "kernels/attention/portable/latent_args.h"
#include "kernels/matmul/portable/matvec.h"

using namespace rocmforge;
using rocmforge::gpu::BlockCoded;
using rocmforge::gpu::HeadProductArgs;

namespace rocmforge::gpu {
namespace {

/// The group's input of one head.
__device__ MatvecArgs group_input(const HeadProductArgs& args, int head, std::int64_t first, int tokens) {
  MatvecArgs own;
  own.x = args.x + first * args.x_stride + std::int64_t{head} * (args.k + args.tail);
  own.x_stride = args.x_stride;
  own.k = args.k;
  own.tokens = tokens;
  own.chunk = args.chunk;
  own.x_aligned = args.x_aligned;
  own.dtype = args.dtype;
  return own;
}

/// Whether any of the group's tokens is wanted.
__device__ bool is_wanted(const HeadProductArgs& args, std::int64_t first, int tokens) {
  bool wanted = args.sequence_of == nullptr;
  for (int t = 0; !wanted && t < tokens; ++t) {
    const std::int32_t sequence = args.sequence_of[first + t];
    wanted = args.query_offsets[sequence + 1] - args.query_offsets[sequence] == 1;
  }
  return wanted;
}

/// `places`: tokens of a group.
template <class Block, int rows, int places>
__device__ void head_products(const HeadProductArgs& args) {
  constexpr int waves = matvec_threads / wave_size;
  release_successor();  // weights and the arrays of a step are read before the predecessor has ended
  const int head = static_cast<int>(blockIdx.y);
  const int heads = static_cast<int>(gridDim.y);
  const int first_row = (static_cast<int>(blockIdx.x) * waves + wave_index()) * rows;
  const std::uint8_t* weights[rows];
#pragma unroll
  for (int r = 0; r < rows; ++r) {
    weights[r] = args.weight + head * args.head_bytes + min(first_row + r, args.n - 1) * args.row_bytes;
  }
  const std::int64_t first = std::int64_t{blockIdx.z} * places;
  const std::int64_t left = args.tokens - first;
  const int tokens = left < places ? static_cast<int>(left) : places;
  if (!is_wanted(args, first, tokens)) {  // the whole work-group sees the same
    wait_for_predecessor();
    return;
  }
  const MatvecArgs input = group_input(args, head, first, tokens);
  float* out = args.out + (first * heads + head) * (args.n + args.tail);
  const std::int64_t stride = std::int64_t{heads} * (args.n + args.tail);
  float sums[rows][places] = {};
  wave_products<Block, places, rows>(input, weights, staged_chunk(), sums);
#pragma unroll
  for (int r = 0; r < rows; ++r) {
#pragma unroll
    for (int t = 0; t < places; ++t) {
      const float sum = wave_reduce<Sum>(sums[r][t]);
      if (lane_index() == (r * places + t) % wave_size && first_row + r < args.n && t < tokens) {
        out[t * stride + first_row + r] = sum;
      }
    }
  }
  for (int i = thread_index(); blockIdx.x == 0 && i < tokens * args.tail; i += matvec_threads) {
    const int t = i / args.tail;
    out[t * stride + args.n + i % args.tail] = input.x[t * input.x_stride + args.k + i % args.tail];
  }
}

}  // namespace
}  // namespace rocmforge::gpu

#define ROCMFORGE_HEAD_PRODUCTS(format, Block, Element, rows)                                         \
  ROCMFORGE_KERNEL __launch_bounds__(gpu::matvec_threads, gpu::matvec_groups(gpu::head_tokens))       \
      head_products_##format(HeadProductArgs args) {                                                  \
    gpu::head_products<Block, gpu::matvec_wave_rows(gpu::head_tokens, rows), gpu::head_tokens>(args); \
  }                                                                                                   \
  ROCMFORGE_KERNEL __launch_bounds__(gpu::matvec_threads, gpu::matvec_groups(gpu::head_tokens))       \
      head_product_##format(HeadProductArgs args) {                                                   \
    gpu::head_products<Block, gpu::matvec_wave_rows(gpu::head_tokens, rows), 1>(args);                \
  }

ROCMFORGE_MATMUL_FORMATS(ROCMFORGE_HEAD_PRODUCTS)
ROCMFORGE_MATMUL_CODED(ROCMFORGE_HEAD_PRODUCTS)
