// Attention over rotated V gives rotated rows: these are turned back (KvTypes).

#include "kernels/attention/portable/attention.h"
#include "kernels/tile/hadamard.h"

namespace rocmforge::gpu {
namespace {
extern __shared__ float shared_heads[];  // [waves, head_dim]
}

ROCMFORGE_KERNEL attention_turn(TurnHeadsArgs args) {
  const int sequence = static_cast<int>(blockIdx.z);
  const int first = args.query_offsets[sequence];
  const int q_len = args.query_offsets[sequence + 1] - first;
  const int row = static_cast<int>(blockIdx.x);
  if (row >= q_len || (args.rows != 0 && (args.rows == 1) != (q_len == 1))) {
    return;
  }
  const int waves = static_cast<int>(blockDim.x) / wave_size;
  float* const head = shared_heads + wave_index() * args.head_dim;
  for (int h = static_cast<int>(blockIdx.y) * waves + wave_index(); h < args.heads;
       h += static_cast<int>(gridDim.y) * waves) {
    const std::int64_t at = (first + row) * args.stride + std::int64_t{h} * args.head_dim;
    for (int dim = lane_index(); dim < args.head_dim; dim += wave_size) {
      head[dim] = load_io(args.x, args.io_dtype, at + dim);
    }
    turn_by_hadamard(head, args.head_dim, args.block, args.factor);
    for (int dim = lane_index(); dim < args.head_dim; dim += wave_size) {
      store_io(args.x, args.io_dtype, at + dim, head[dim]);
    }
    sync_wave();
  }
}

}  // namespace rocmforge::gpu
