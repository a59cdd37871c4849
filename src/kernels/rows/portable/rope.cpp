#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "kernels/launch/gpu_kernel.h"
#include "kernels/rows/kernels.h"
#include "kernels/rows/portable/rope_launch.h"
#include "ops/kv_codes.h"

namespace rocmforge {
namespace {

std::int32_t pairs_of(const RopeAppend::Spec& spec) { return spec.kind == RopeKind::none ? 0 : spec.n_rot / 2; }

}  // namespace

namespace gpu {

RopeAppendArgs rope_append_args(const RopeAppend::Spec& spec, const RopeAppend::Args& args) {
  const KvLayout& layout = spec.layout;
  const std::int32_t kv_heads = spec.append ? layout.kv_heads : 0;
  const bool in_bytes = layout.dtype.is_quantised() || uses_coded_pages(layout.dtype);
  return {.q = args.q,
          .k = args.k,
          .v = args.v,
          .q_norm = spec.head_norm ? args.q_norm : nullptr,
          .k_norm = spec.head_norm ? args.k_norm : nullptr,
          .inverse_frequency = args.inverse_frequency,
          .cache = args.cache.data,
          .positions = args.batch.positions,
          .sequence_of = args.batch.sequence_of,
          .kv_lengths = args.batch.kv_lengths,
          .block_tables = args.batch.block_tables,
          .query_offsets = args.batch.query_offsets,
          .axes = args.batch.position_axes > 1 ? args.axes : nullptr,
          .stride = args.stride,
          .block_elems = in_bytes ? static_cast<std::int64_t>(layout.block_bytes()) : layout.block_elems(),
          .head_elems = in_bytes ? static_cast<std::int64_t>(layout.head_bytes()) : layout.head_elems(),
          .q_heads = spec.q_heads,
          .kv_heads = kv_heads,
          .head_dim = spec.head_dim,
          .pairs = pairs_of(spec),
          .position_axes = args.batch.position_axes,
          .max_blocks = args.batch.max_blocks,
          .block_shift = std::countr_zero(static_cast<std::uint32_t>(layout.block_tokens)),
          .adjacent = spec.kind == RopeKind::adjacent ? 1 : 0,
          .k_by_dim = layout.k_order == KvOrder::dim_major ? 1 : 0,
          .v_by_dim = layout.v_order == KvOrder::dim_major ? 1 : 0,
          .value_norm = spec.value_norm ? 1 : 0,
          .norm_after_turn = spec.norm_after_turn ? 1 : 0,
          .norm_eps = spec.norm_eps,
          .magnitude = spec.magnitude,
          .temperature_scale = spec.temperature_scale,
          .temperature_length = std::max(spec.temperature_length, 1) * (spec.temperature_ahead != 0 ? -1 : 1)};
}

}  // namespace gpu

namespace {

constexpr Kernel<gpu::RopeAppendArgs> f32_kernel{"rope", "rope_append_f32", LaunchOrder::by_kernel};
constexpr Kernel<gpu::RopeAppendArgs> f16_kernel{"rope", "rope_append_f16", LaunchOrder::by_kernel};
constexpr Kernel<gpu::RopeAppendArgs> bf16_kernel{"rope", "rope_append_bf16", LaunchOrder::by_kernel};

constexpr Kernel<gpu::RopeAppendArgs> q8_0_kernel{"rope", "rope_append_q8_0", LaunchOrder::by_kernel};
constexpr Kernel<gpu::RopeAppendCodedArgs> coded_kernel{"rope", "rope_append_coded", LaunchOrder::by_kernel};

constexpr std::uint32_t rope_threads = 256;
constexpr int heads_per_group = 8;               ///< a wave of 32 lanes for each; waves of 64 take two
constexpr std::int64_t shared_limit = 48 << 10;  ///< every device gives a work-group that much

/// A head for each wave of 32 lanes where it is quantised or rotated.
std::int64_t shared_bytes(const RopeAppend::Spec& spec) {
  const bool stages = spec.layout.dtype == DType::q8_0 || gpu::uses_coded_pages(spec.layout.dtype);
  return gpu::turn_shared_bytes(pairs_of(spec), stages ? std::int64_t{heads_per_group} * spec.head_dim : 0);
}

const Kernel<gpu::RopeAppendArgs>& kernel_for(const KvTypes& cache) {
  return cache == DType::f16    ? f16_kernel
         : cache == DType::bf16 ? bf16_kernel
         : cache == DType::q8_0 ? q8_0_kernel
                                : f32_kernel;
}

class GpuRopeAppend final : public GpuKernel<OpKernel<RopeAppend>> {
 public:
  using GpuKernel::GpuKernel;

  [[nodiscard]] Support supports(const RopeAppend::Spec& spec, const DeviceInfo&) const override {
    if (Support support = check_spec(spec); !support.ok) {
      return support;
    }
    if (shared_bytes(spec) > shared_limit) {
      return Support::no(
          fmt::format("the angles of n_rot {} take more than {} bytes of shared memory", spec.n_rot, shared_limit));
    }
    if (spec.head_norm && spec.norm_after_turn && spec.magnitude != 1.0f) {
      return Support::no(fmt::format("a norm after a turn with magnitude {}", spec.magnitude));
    }
    return Support::yes();
  }

  void run(const RopeAppend::Spec& spec, const RopeAppend::Args& args, ExecutionContext& context) const override {
    check_arguments(spec, args, device());
    if (args.batch.num_tokens == 0) {
      return;
    }
    const KvLayout& layout = spec.layout;
    const std::int32_t kv_heads = spec.append ? layout.kv_heads : 0;
    LaunchShape shape;
    shape.grid[0] = static_cast<std::uint32_t>(args.batch.num_tokens);
    shape.grid[1] = static_cast<std::uint32_t>(divide_up(spec.q_heads + 2 * kv_heads, heads_per_group));
    shape.block[0] = rope_threads;
    shape.shared_bytes = static_cast<std::uint32_t>(shared_bytes(spec));
    const gpu::RopeAppendArgs kernel_args = gpu::rope_append_args(spec, args);
    if (!gpu::uses_coded_pages(layout.dtype)) {
      kernel_for(layout.dtype).launch(*context.stream, shape, kernel_args);
      return;
    }
    const std::int32_t block = hadamard_dims(spec.head_dim);
    coded_kernel.launch(*context.stream, shape,
                        {.rope = kernel_args,
                         .pages = gpu::coded_pages(layout, args.cache, args.batch.block_tables, args.batch.max_blocks),
                         .block = block,
                         .factor = hadamard_factor(block)});
  }
};

}  // namespace

std::unique_ptr<OpKernel<RopeAppend>> make_gpu_rope_append(DeviceKind kind) { return std::make_unique<GpuRopeAppend>(kind); }

}  // namespace rocmforge
