#include <algorithm>

#include "kernels/gpu/attention_launch.h"
#include "kernels/gpu/kernels.h"

namespace rocmforge {
namespace {

using ComposedKernel = Kernel<gpu::ComposedArgs>;
constexpr ComposedKernel gather_f32{"composed", "composed_gather_f32"};
constexpr ComposedKernel gather_f16{"composed", "composed_gather_f16"};
constexpr ComposedKernel gather_bf16{"composed", "composed_gather_bf16"};
constexpr ComposedKernel gather_q8_0{"composed", "composed_gather_q8_0"};
constexpr ComposedKernel query_key{"composed", "composed_query_key"};
constexpr ComposedKernel causal_mask{"composed", "composed_causal_mask"};
constexpr ComposedKernel row_softmax{"composed", "composed_row_softmax"};
constexpr ComposedKernel weights_value{"composed", "composed_weights_value"};

constexpr std::int64_t tile = 64;
constexpr std::uint32_t threads = 256;
constexpr std::int64_t most_floats = std::int64_t{64} << 20;  ///< 256 MiB of K, V and scores, unless one head needs more

/// What is computed at once.
struct Pass {
  std::int64_t sequences = 1;
  std::int64_t heads = 1;
  std::int64_t rows = 1;
  std::int64_t kv_len = 1;
  std::int64_t head_dim = 1;

  [[nodiscard]] std::int64_t kv_floats() const { return sequences * heads * kv_len * head_dim; }
  [[nodiscard]] std::int64_t score_floats() const { return sequences * heads * rows * kv_len; }
  [[nodiscard]] std::int64_t floats() const { return 2 * kv_floats() + score_floats(); }
};

/// The whole step.
Pass whole(const Attention::Spec& spec, std::int64_t sequences, std::int64_t rows, std::int64_t kv_len) {
  return {.sequences = std::max<std::int64_t>(sequences, 1),
          .heads = spec.q_heads,
          .rows = std::max<std::int64_t>(rows, 1),
          .kv_len = std::max<std::int64_t>(kv_len, 1),
          .head_dim = spec.head_dim};
}

/// As much of the step as fits: first rows, then heads, then sequences.
Pass plan(const Pass& all) {
  Pass pass = all;
  pass.sequences = 1;
  pass.heads = 1;
  pass.rows = 1;
  const auto grow = [&](std::int64_t Pass::*size, std::int64_t most) {
    while (pass.*size < most) {
      Pass larger = pass;
      larger.*size = std::min(most, 2 * (pass.*size));
      if (larger.floats() > most_floats || larger.sequences * larger.heads > 32768) {
        return;
      }
      pass = larger;
    }
  };
  grow(&Pass::rows, all.rows);
  grow(&Pass::heads, all.heads);
  grow(&Pass::sequences, all.sequences);
  return pass;
}

std::uint32_t dimension(std::int64_t size) { return static_cast<std::uint32_t>(size); }

class ComposedAttention final : public gpu::GpuAttention {
 public:
  using GpuAttention::GpuAttention;
  [[nodiscard]] std::string_view name() const override { return "composed"; }
  [[nodiscard]] KernelPriority priority() const override { return KernelPriority::portable; }

  [[nodiscard]] Support supports(const Attention::Spec& spec, const DeviceInfo&) const override { return check_spec(spec); }

  [[nodiscard]] std::size_t workspace_bytes(const Attention::Spec& spec, const AttentionLimits& limits) const override {
    const Pass all = whole(spec, limits.max_sequences, limits.max_tokens, limits.max_kv_len);
    Pass least = all;
    least.sequences = 1;
    least.heads = 1;
    least.rows = 1;
    return static_cast<std::size_t>(std::min(all.floats(), std::max(most_floats, least.floats()))) * sizeof(float);
  }

  void run(const Attention::Spec& spec, const KvLayout& layout, const Attention::Args& args,
           ExecutionContext& context) const override {
    const RaggedBatch& batch = args.batch;
    gpu::ComposedArgs kernel_args{};
    kernel_args.attention = attention_args(spec, layout, args);
    check(args.workspace != nullptr, "attention: workspace is null");
    if (batch.num_tokens == 0) {
      return;
    }
    const Pass all = whole(spec, batch.num_sequences, batch.max_q_len, batch.max_kv_len);
    const Pass pass = plan(all);
    kernel_args.k = static_cast<float*>(args.workspace);
    kernel_args.v = kernel_args.k + pass.kv_floats();
    kernel_args.scores = kernel_args.v + pass.kv_floats();
    kernel_args.row_capacity = static_cast<std::int32_t>(pass.rows);
    kernel_args.kv_capacity = static_cast<std::int32_t>(pass.kv_len);
    for (std::int64_t s = 0; s < all.sequences; s += pass.sequences) {
      for (std::int64_t h = 0; h < all.heads; h += pass.heads) {
        kernel_args.first_sequence = static_cast<std::int32_t>(s);
        kernel_args.first_head = static_cast<std::int32_t>(h);
        kernel_args.sequences = static_cast<std::int32_t>(std::min(pass.sequences, all.sequences - s));
        kernel_args.heads = static_cast<std::int32_t>(std::min(pass.heads, all.heads - h));
        run_heads(spec, all.rows, kernel_args, *context.stream);
      }
    }
  }

 private:
  /// All rows of some heads of some sequences.
  static void run_heads(const Attention::Spec& spec, std::int64_t rows, gpu::ComposedArgs& args, Stream& stream) {
    const std::uint32_t matrices = dimension(std::int64_t{args.sequences} * args.heads);
    const auto launch = [&](const ComposedKernel& kernel, std::int64_t x, std::uint32_t y, std::uint32_t z) {
      LaunchShape shape;
      shape.grid = {dimension(x), y, z};
      shape.block[0] = threads;
      kernel.launch(stream, shape, args);
    };
    args.first_row = 0;
    const std::int64_t head_floats = std::int64_t{args.kv_capacity} * spec.head_dim;
    launch(spec.kv_dtype == DType::f16    ? gather_f16
           : spec.kv_dtype == DType::bf16 ? gather_bf16
           : spec.kv_dtype == DType::q8_0 ? gather_q8_0
                                          : gather_f32,
           std::min<std::int64_t>(divide_up(head_floats, threads), 256), matrices, 1);
    for (std::int64_t r = 0; r < rows; r += args.row_capacity) {
      args.first_row = static_cast<std::int32_t>(r);
      const std::int64_t pass_rows = std::min<std::int64_t>(args.row_capacity, rows - r);
      const std::uint32_t row_tiles = dimension(divide_up(pass_rows, tile));
      launch(query_key, divide_up(args.kv_capacity, tile), row_tiles, matrices);
      launch(causal_mask, pass_rows, matrices, 1);
      launch(row_softmax, pass_rows, matrices, 1);
      launch(weights_value, divide_up(spec.head_dim, tile), row_tiles, matrices);
    }
  }
};

}  // namespace

std::unique_ptr<AttentionBackend> make_gpu_composed_attention(DeviceKind kind) {
  return std::make_unique<ComposedAttention>(kind);
}

}  // namespace rocmforge
