#include "kernels/gpu/building_blocks_args.h"
#include "kernels/gpu/gpu_kernel.h"
#include "kernels/gpu/kernels.h"

namespace rocmforge {
namespace {

constexpr Kernel<gpu::CausalMaskArgs> causal_mask_kernel{"building_blocks", "causal_mask"};
constexpr Kernel<gpu::QueryKeyArgs> query_key_kernel{"building_blocks", "query_key"};
constexpr Kernel<gpu::WeightsValueArgs> weights_value_kernel{"building_blocks", "weights_value"};
constexpr Kernel<gpu::ReplicateKvArgs> replicate_kv_kernel{"building_blocks", "replicate_kv"};

constexpr std::uint32_t threads = 256;
constexpr std::int64_t tile = 64;  ///< rows and columns of results of a work-group

/// For `matrices` products of [rows, cols].
LaunchShape tile_launch(std::int64_t matrices, std::int64_t rows, std::int64_t cols) {
  return launch_of(matrices * divide_up(rows, tile) * divide_up(cols, tile), threads);
}

class GpuCausalMask final : public PortableGpuKernel<CausalMask> {
 public:
  using PortableGpuKernel::PortableGpuKernel;

  void run(const CausalMask::Spec& spec, const CausalMask::Args& args, ExecutionContext& context) const override {
    check_arguments(spec, args);
    const std::int64_t rows = args.matrices * args.q_len;
    if (rows == 0 || args.kv_len == 0) {
      return;
    }
    causal_mask_kernel.launch(
        *context.stream, launch_of(divide_up(args.kv_len, threads), rows, threads),
        {.scores = args.scores, .rows = rows, .q_len = args.q_len, .kv_len = args.kv_len, .window = args.window});
  }
};

class GpuQueryKey final : public PortableGpuKernel<QueryKey> {
 public:
  using PortableGpuKernel::PortableGpuKernel;

  void run(const QueryKey::Spec& spec, const QueryKey::Args& args, ExecutionContext& context) const override {
    check_arguments(spec, args);
    if (args.batch == 0 || args.q_len == 0 || args.kv_len == 0) {
      return;
    }
    query_key_kernel.launch(*context.stream, tile_launch(std::int64_t{args.batch} * spec.heads, args.q_len, args.kv_len),
                            {.q = args.q,
                             .k = args.k,
                             .scores = args.scores,
                             .batch = args.batch,
                             .heads = spec.heads,
                             .head_dim = spec.head_dim,
                             .q_len = args.q_len,
                             .kv_len = args.kv_len,
                             .scale = args.scale});
  }
};

class GpuWeightsValue final : public PortableGpuKernel<WeightsValue> {
 public:
  using PortableGpuKernel::PortableGpuKernel;

  void run(const WeightsValue::Spec& spec, const WeightsValue::Args& args, ExecutionContext& context) const override {
    check_arguments(spec, args);
    if (args.batch == 0 || args.q_len == 0) {
      return;
    }
    weights_value_kernel.launch(*context.stream,
                                tile_launch(std::int64_t{args.batch} * spec.heads, args.q_len, spec.head_dim),
                                {.weights = args.weights,
                                 .v = args.v,
                                 .out = args.out,
                                 .batch = args.batch,
                                 .heads = spec.heads,
                                 .head_dim = spec.head_dim,
                                 .q_len = args.q_len,
                                 .kv_len = args.kv_len});
  }
};

class GpuReplicateKv final : public PortableGpuKernel<ReplicateKv> {
 public:
  using PortableGpuKernel::PortableGpuKernel;

  void run(const ReplicateKv::Spec& spec, const ReplicateKv::Args& args, ExecutionContext& context) const override {
    check_arguments(spec, args);
    const std::int64_t out_heads = args.tokens * spec.q_heads;
    if (out_heads == 0) {
      return;
    }
    constexpr std::int64_t heads_per_group = 8;  // a wave of 32 lanes for each
    replicate_kv_kernel.launch(*context.stream, launch_of(divide_up(out_heads, heads_per_group), threads),
                               {.k = args.k,
                                .v = args.v,
                                .k_out = args.k_out,
                                .v_out = args.v_out,
                                .out_heads = out_heads,
                                .group = spec.q_heads / spec.kv_heads,
                                .head_dim = spec.head_dim});
  }
};

}  // namespace

std::unique_ptr<OpKernel<CausalMask>> make_gpu_causal_mask(DeviceKind kind) { return std::make_unique<GpuCausalMask>(kind); }
std::unique_ptr<OpKernel<QueryKey>> make_gpu_query_key(DeviceKind kind) { return std::make_unique<GpuQueryKey>(kind); }
std::unique_ptr<OpKernel<WeightsValue>> make_gpu_weights_value(DeviceKind kind) {
  return std::make_unique<GpuWeightsValue>(kind);
}
std::unique_ptr<OpKernel<ReplicateKv>> make_gpu_replicate_kv(DeviceKind kind) {
  return std::make_unique<GpuReplicateKv>(kind);
}

}  // namespace rocmforge
