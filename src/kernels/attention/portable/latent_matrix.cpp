#include <fmt/format.h>

#include <algorithm>

#include "kernels/attention/kernels.h"
#include "kernels/attention/portable/attention_launch.h"
#include "kernels/attention/portable/latent_args.h"

namespace rocmforge {
namespace {

constexpr Kernel<gpu::AttentionArgs> matrix_f16{"latent_matrix", "latent_matrix_f16", LaunchOrder::by_kernel};
constexpr Kernel<gpu::AttentionArgs> matrix_bf16{"latent_matrix", "latent_matrix_bf16", LaunchOrder::by_kernel};
constexpr Kernel<gpu::LatentMergeArgs> merge{"latent_matrix", "latent_merge", LaunchOrder::by_kernel};

std::int32_t pieces_for(std::int64_t kv_len) {
  return static_cast<std::int32_t>(std::clamp<std::int64_t>(divide_up(kv_len, gpu::split_keys), 1, gpu::latent_pieces));
}

/// Work-groups of 16 query heads for each plane.
std::int32_t head_tiles(const Attention::Spec& spec) {
  return (spec.q_heads / spec.kv_heads + gpu::latent_matrix_heads - 1) / gpu::latent_matrix_heads;
}

/// Sums and states of one row, or of a sequence of one row.
std::int64_t item_floats(const Attention::Spec& spec, std::int32_t pieces) {
  return std::int64_t{spec.kv_heads} * head_tiles(spec) * pieces * gpu::latent_matrix_heads * (spec.value_dim + 2);
}

/// Items of one launch, so that their parts stay within 128 MiB.
std::int64_t items_of_a_launch(const Attention::Spec& spec, std::int64_t items, std::int32_t pieces) {
  constexpr std::int64_t most_floats = std::int64_t{32} << 20;
  return std::clamp<std::int64_t>(most_floats / item_floats(spec, pieces), 1, std::max<std::int64_t>(items, 1));
}

/// All heads of a sequence share its keys as they come from the pages.
class LatentMatrixAttention final : public gpu::GpuAttention {
 public:
  using GpuAttention::GpuAttention;
  [[nodiscard]] std::string_view name() const override { return "latent_matrix"; }
  [[nodiscard]] KernelPriority priority() const override { return KernelPriority::family; }

  [[nodiscard]] Support supports(const Attention::Spec& spec, const DeviceInfo&) const override {
    if (Support support = gpu::check_latent_plane(spec); !support.ok) {
      return support;
    }
    if (spec.kv_dtype != DType::f16 && spec.kv_dtype != DType::bf16) {
      return Support::no(
          fmt::format("latent rows of type {}: matrix cores take F16 and BF16", rocmforge::name(spec.kv_dtype)));
    }
    return Support::yes();
  }

  [[nodiscard]] std::size_t workspace_bytes(const Attention::Spec& spec, const AttentionLimits& limits) const override {
    const std::int32_t pieces = limits.max_kv_len > 0 ? pieces_for(limits.max_kv_len) : gpu::latent_pieces;
    const std::int64_t most_items = std::max<std::int64_t>({limits.max_tokens, limits.max_sequences, 1});
    // With fewer pieces a launch takes more items, but their parts stay within the same bound.
    const std::int64_t items = items_of_a_launch(spec, most_items, pieces);
    return static_cast<std::size_t>(std::min(most_items, items + 1) * item_floats(spec, pieces)) * sizeof(float);
  }

  void run(const Attention::Spec& spec, const KvLayout& layout, const Attention::Args& args,
           ExecutionContext& context) const override {
    gpu::AttentionArgs kernel_args = attention_args(spec, layout, args);
    gpu::check_vector_loads(kernel_args.kv, spec.kv_dtype.k);
    const bool by_sequence = spec.has_single_rows() || args.rows == Attention::Rows::single;
    check(by_sequence || args.batch.sequence_of != nullptr, "attention: batch.sequence_of is null");
    check(args.workspace != nullptr, "attention: workspace is null");
    if (args.batch.num_tokens == 0) {
      return;
    }
    const std::int32_t pieces = pieces_for(args.batch.max_kv_len);
    const std::int64_t items = by_sequence ? args.batch.num_sequences : args.batch.num_tokens;
    const std::int64_t at_once = items_of_a_launch(spec, items, pieces);
    const std::int64_t parts = at_once * spec.kv_heads * head_tiles(spec) * std::int64_t{pieces} * gpu::latent_matrix_heads;
    kernel_args.partial_sums = static_cast<float*>(args.workspace);
    kernel_args.partial_states = kernel_args.partial_sums + parts * spec.value_dim;
    kernel_args.group_tiles = head_tiles(spec);
    kernel_args.by_sequence = by_sequence ? 1 : 0;
    for (std::int64_t first = 0; first < items; first += at_once) {
      kernel_args.first_item = static_cast<std::int32_t>(first);
      launch(spec, kernel_args, std::min(at_once, items - first), pieces, context);
    }
  }

 private:
  void launch(const Attention::Spec& spec, const gpu::AttentionArgs& args, std::int64_t items, std::int32_t pieces,
              ExecutionContext& context) const {
    LaunchShape shape;
    shape.grid = {static_cast<std::uint32_t>(items), static_cast<std::uint32_t>(spec.kv_heads * args.group_tiles),
                  static_cast<std::uint32_t>(pieces)};
    shape.block[0] = gpu::four_waves(context);
    shape.shared_bytes =
        static_cast<std::uint32_t>(gpu::latent_matrix_shared(gpu::latent_matrix_stages(device() == DeviceKind::cuda)).bytes);
    (spec.kv_dtype == DType::f16 ? matrix_f16 : matrix_bf16).launch(*context.stream, shape, args);
    if (pieces == 1) {
      return;
    }
    LaunchShape merging;
    merging.grid = {
        shape.grid[0], shape.grid[1],
        static_cast<std::uint32_t>(gpu::latent_matrix_heads * divide_up(spec.value_dim, gpu::latent_merge_threads))};
    merging.block[0] = gpu::latent_merge_threads;
    merge.launch(*context.stream, merging, {.attention = args, .pieces = pieces, .unused = 0});
  }
};

}  // namespace

std::unique_ptr<AttentionBackend> make_gpu_latent_matrix_attention(DeviceKind kind) {
  return std::make_unique<LatentMatrixAttention>(kind);
}

}  // namespace rocmforge
