#include <fmt/format.h>

#include <algorithm>

#include "kernels/attention/kernels.h"
#include "kernels/attention/portable/attention_launch.h"
#include "kernels/attention/portable/latent_args.h"
#include "kernels/launch/gpu_kernel.h"

namespace rocmforge {
namespace {

constexpr Kernel<gpu::LatentWeightsArgs> weights_f16{"latent_expand", "latent_weights_f16"};
constexpr Kernel<gpu::LatentWeightsArgs> weights_bf16{"latent_expand", "latent_weights_bf16"};
constexpr Kernel<gpu::LatentExpandArgs> expand_f16{"latent_expand", "latent_expand_f16"};
constexpr Kernel<gpu::LatentExpandArgs> expand_bf16{"latent_expand", "latent_expand_bf16"};
constexpr Kernel<gpu::LatentExpandArgs> expand_q8_0{"latent_expand", "latent_expand_q8_0"};
constexpr Kernel<gpu::CopyHeadsArgs> copy_kernel{"latent_expand", "copy_heads"};

class GpuLatentExpand final : public GpuKernel<OpKernel<LatentExpand>> {
 public:
  using GpuKernel::GpuKernel;

  [[nodiscard]] Support supports(const LatentExpand::Spec& spec, const DeviceInfo&) const override {
    if (Support support = check_spec(spec); !support.ok) {
      return support;
    }
    if (spec.layout.dtype == DType::f32) {
      return Support::no("latent rows of type F32: matrix cores take F16 and BF16");
    }
    if ((spec.layout.dtype == DType::bf16) != (spec.out == DType::bf16)) {
      return Support::no(fmt::format("K and V of type {} from a cache of {}", rocmforge::name(spec.out),
                                     rocmforge::name(spec.layout.dtype)));
    }
    if (spec.rank() % 8 != 0 || spec.layout.head_dim % 8 != 0 || spec.layout.k_order != KvOrder::token_major) {
      return Support::no(
          fmt::format("latent rows of {} and {}: not multiples of 8, side by side", spec.rank(), spec.n_rot()));
    }
    return Support::yes();
  }

  void run(const LatentExpand::Spec& spec, const LatentExpand::Args& args, ExecutionContext& context) const override {
    check_arguments(spec, args, device());
    if (args.heads == 0 || args.batch.max_kv_len == 0) {
      return;
    }
    convert_weights(spec, args, context);
    const std::int32_t columns = spec.plain_dim + spec.value_dim;
    const std::int32_t tiles = (columns + gpu::expand_columns - 1) / gpu::expand_columns;
    LaunchShape shape;
    shape.grid = {static_cast<std::uint32_t>(divide_up(args.batch.max_kv_len, gpu::expand_rows)),
                  static_cast<std::uint32_t>(tiles * args.heads), static_cast<std::uint32_t>(args.batch.num_sequences)};
    shape.block[0] = gpu::expand_threads;
    const auto& kernel = spec.layout.dtype == DType::f16    ? expand_f16
                         : spec.layout.dtype == DType::bf16 ? expand_bf16
                                                            : expand_q8_0;
    const bool in_eights = spec.plain_dim % 8 == 0 && spec.value_dim % 8 == 0 && spec.head_dim() % 8 == 0;
    kernel.launch(*context.stream, shape,
                  {.kv = gpu::kv_address(spec.layout, args.cache, {}, args.batch.block_tables, args.batch.max_blocks),
                   .weights = args.workspace,
                   .k = args.k,
                   .v = args.v,
                   .kv_lengths = args.batch.kv_lengths,
                   .capacity = args.batch.max_kv_len,
                   .heads = args.heads,
                   .rank = spec.rank(),
                   .plain_dim = spec.plain_dim,
                   .value_dim = spec.value_dim,
                   .head_dim = spec.head_dim(),
                   .in_eights = in_eights ? 1 : 0});
  }

 private:
  static void convert_weights(const LatentExpand::Spec& spec, const LatentExpand::Args& args, ExecutionContext& context) {
    const std::int64_t longest = std::max<std::int64_t>(std::int64_t{spec.plain_dim} + 8, spec.value_dim) * spec.rank() / 8;
    LaunchShape shape = launch_of(divide_up(longest, gpu::latent_weights_threads), gpu::latent_weights_threads);
    shape.grid[1] = static_cast<std::uint32_t>(args.heads);
    shape.grid[2] = 2;
    const auto& kernel = spec.out == DType::f16 ? weights_f16 : weights_bf16;
    kernel.launch(*context.stream, shape,
                  {.keys = args.key_weight,
                   .values = args.value_weight,
                   .out = args.workspace,
                   .key_head_bytes = args.key_head_bytes,
                   .value_head_bytes = args.value_head_bytes,
                   .key_row_bytes = static_cast<std::int64_t>(row_bytes(spec.key_weight, spec.plain_dim)),
                   .value_row_bytes = static_cast<std::int64_t>(row_bytes(spec.value_weight, spec.rank())),
                   .key_type = spec.key_weight,
                   .value_type = spec.value_weight,
                   .rank = spec.rank(),
                   .plain_dim = spec.plain_dim,
                   .value_dim = spec.value_dim,
                   .unused = 0});
  }
};

class GpuCopyHeads final : public PortableGpuKernel<CopyHeads> {
 public:
  using PortableGpuKernel::PortableGpuKernel;

  void run(const CopyHeads::Spec& spec, const CopyHeads::Args& args, ExecutionContext& context) const override {
    check_arguments(spec, args);
    if (args.tokens == 0) {
      return;
    }
    const std::int64_t width = std::int64_t{args.heads} * spec.out_dim;
    const std::uint32_t threads = threads_for(width, 256);
    copy_kernel.launch(*context.stream, launch_of(divide_up(width, threads), args.tokens, threads),
                       {.x = args.x,
                        .out = args.out,
                        .first_token = args.first_token,
                        .tokens = args.tokens,
                        .heads = args.heads,
                        .dim = spec.dim,
                        .out_dim = spec.out_dim,
                        .out_heads = args.out_heads,
                        .first_head = args.first_head,
                        .unused = 0});
  }
};

}  // namespace

std::unique_ptr<OpKernel<LatentExpand>> make_gpu_latent_expand(DeviceKind kind) {
  return std::make_unique<GpuLatentExpand>(kind);
}
std::unique_ptr<OpKernel<CopyHeads>> make_gpu_copy_heads(DeviceKind kind) { return std::make_unique<GpuCopyHeads>(kind); }

}  // namespace rocmforge
