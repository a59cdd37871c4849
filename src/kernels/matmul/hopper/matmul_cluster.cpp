#include "kernels/matmul/hopper/matmul_cluster.h"

#include <algorithm>

#include "base/error.h"
#include "base/math.h"
#include "kernels/formats/hopper/weight_layout.h"
#include "kernels/launch/kernel_table.h"
#include "kernels/matmul/hopper/matmul_cluster_args.h"
#include "kernels/matmul/hopper/matmul_many.h"
#include "kernels/matmul/hopper/tuning.h"

namespace rocmforge::hopper {
namespace {

constexpr TokenKernels<MatmulClusterArgs, 2> cluster_kernels{
    {{16, {"matmul_cluster", "matmul_cluster_16", LaunchOrder::by_kernel}},
     {most_cluster_tokens, {"matmul_cluster", "matmul_cluster_32", LaunchOrder::by_kernel}}}};
static_assert(most_cluster_tokens == 32);

int tile_tokens(std::int64_t tokens) { return tokens <= 16 ? 16 : most_cluster_tokens; }

std::int32_t weight_bytes(const MatmulOutput& output) {
  return static_cast<std::int32_t>(round_up(cluster_weight_bytes(weight_format(output.dtype)), 128));
}

}  // namespace

bool takes_cluster(const Matmul::Args& call, const MatmulOutput& output) {
  const std::int64_t rows = output.n * (call.gated ? 2 : 1);
  return call.tokens <= most_cluster_tokens && call.k >= least_cluster_columns && call.k <= most_cluster_columns &&
         rows * call.k <= most_cluster_weights;
}

void run_matmul_cluster(const Matmul::Args& call, Stream& stream) {
  check(call.outputs.size() <= most_tiles_parts, "matmul: more than four outputs in a group");
  const bool norm_aligned = reinterpret_cast<std::uintptr_t>(call.norm_weight) % 16 == 0;
  MatmulClusterArgs args{};
  args.x = call.x;
  args.x_stride = call.x_stride;
  args.norm_weight = call.norm_weight;
  args.norm_epsilon = call.norm_eps;
  args.k = static_cast<std::int32_t>(call.k);
  args.tokens = static_cast<std::int32_t>(call.tokens);
  args.x_aligned = reinterpret_cast<std::uintptr_t>(call.x) % 16 == 0 && call.x_stride % 4 == 0 && norm_aligned ? 1 : 0;
  args.gate = call.gated ? gate_of(call) : Gate::none;
  std::int32_t tiles = 0;
  for (const MatmulOutput& output : call.outputs) {
    const WeightFormat format = weight_format(output.dtype);
    args.parts[args.num_parts++] = {static_cast<const std::uint8_t*>(output.weight),
                                    output.bias,
                                    output.out,
                                    output.stride,
                                    weight_tile_bytes(weight_layout(format), call.k),
                                    static_cast<std::int32_t>(output.n),
                                    tiles,
                                    format,
                                    output.accumulate ? TilesStore::add : TilesStore::plain};
    tiles += static_cast<std::int32_t>(divide_up(output.n, cluster_tile_rows));
    args.weight_bytes = std::max(args.weight_bytes, weight_bytes(output));
  }
  if (call.gated) {
    tiles = static_cast<std::int32_t>(divide_up(call.outputs[0].n, cluster_tile_rows / 2));
  }
  LaunchShape shape;
  const int tokens = tile_tokens(call.tokens);
  shape.cluster = static_cast<std::uint32_t>(divide_up(call.k, std::int64_t{cluster_segment_columns}));
  shape.grid = {shape.cluster, static_cast<std::uint32_t>(tiles), 1};
  shape.block[0] = cluster_threads;
  shape.shared_bytes = static_cast<std::uint32_t>(cluster_shared(tokens, args.weight_bytes).bytes);
  kernel_of(cluster_kernels, tokens).launch(stream, shape, args);
}

}  // namespace rocmforge::hopper
