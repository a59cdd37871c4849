#include <algorithm>

#include "kernels/attention/portable/attention_launch.h"
#include "kernels/check/attention_args.h"
#include "kernels/check/kernels.h"
#include "kernels/check/launch.h"

namespace rocmforge {
namespace {

using check_kernels::AttentionCheckArgs;
using check_kernels::one_thread_each;

constexpr Kernel<AttentionCheckArgs> scores_kernel{"attention_check", "check_scores"};
constexpr Kernel<AttentionCheckArgs> softmax_kernel{"attention_check", "check_softmax"};
constexpr Kernel<AttentionCheckArgs> values_kernel{"attention_check", "check_values"};

/// Scores of so many bytes are held at once, or those of one row.
constexpr std::int64_t most_score_bytes = std::int64_t{256} << 20;

std::int64_t score_bytes_of_row(const Attention::Spec& spec, std::int64_t kv_len) {
  return std::max<std::int64_t>(kv_len, 1) * spec.q_heads * static_cast<std::int64_t>(sizeof(double));
}

class CheckAttention final : public gpu::GpuAttention {
 public:
  explicit CheckAttention(DeviceKind kind) : GpuAttention(kind), append_(make_check_rope_append(kind)) {}
  [[nodiscard]] std::string_view name() const override { return "check"; }
  [[nodiscard]] KernelPriority priority() const override { return KernelPriority::check; }
  [[nodiscard]] Support supports(const Attention::Spec& spec, const DeviceInfo&) const override { return check_spec(spec); }

  [[nodiscard]] std::size_t workspace_bytes(const Attention::Spec& spec, const AttentionLimits& limits) const override {
    const std::int64_t row = score_bytes_of_row(spec, limits.max_kv_len);
    const std::int64_t all = row * std::max<std::int64_t>(limits.max_tokens, 1);
    return static_cast<std::size_t>(std::min(all, std::max(row, most_score_bytes)));
  }

  /// Plans append in a call of their own (takes() is false), so that all K and V of a model come from one kernel. A check of
  /// a kernel that appends gives its append here, too: it runs first.
  void run(const Attention::Spec& spec, const KvLayout& layout, const Attention::Args& args,
           ExecutionContext& context) const override {
    Attention::Args alone = args;
    alone.append = nullptr;
    AttentionCheckArgs kernel_args{};
    kernel_args.call = attention_args(spec, layout, alone);
    kernel_args.visible_end = spec.spans ? args.batch.visible_end : nullptr;
    if (args.append != nullptr) {
      append_->run(args.append->spec, args.append->args, context);
    }
    check(args.batch.sequence_of != nullptr, "attention: batch.sequence_of is null");
    check(args.workspace != nullptr, "attention: workspace is null");
    kernel_args.scores = static_cast<double*>(args.workspace);
    kernel_args.max_kv_len = args.batch.max_kv_len;
    kernel_args.is_latent = spec.value_dim > 0 ? 1 : 0;
    if (gpu::uses_coded_pages(spec.kv_dtype)) {
      kernel_args.pages = gpu::coded_pages(layout, args.cache, args.batch.block_tables, args.batch.max_blocks);
    }
    kernel_args.kv_dtype = spec.kv_dtype.k;
    kernel_args.out_dim = spec.out_dim();
    kernel_args.scale = double{attention_scale(spec)};
    kernel_args.soft_cap = double{spec.soft_cap};
    const std::int64_t rows_at_once =
        std::max<std::int64_t>(1, most_score_bytes / score_bytes_of_row(spec, args.batch.max_kv_len));
    for (std::int64_t first = 0; first < args.batch.num_tokens; first += rows_at_once) {
      const std::int64_t rows = std::min(rows_at_once, args.batch.num_tokens - first);
      kernel_args.first_row = static_cast<std::int32_t>(first);
      kernel_args.num_rows = static_cast<std::int32_t>(rows);
      scores_kernel.launch(*context.stream, one_thread_each(rows * spec.q_heads * kernel_args.max_kv_len), kernel_args);
      softmax_kernel.launch(*context.stream, one_thread_each(rows * spec.q_heads), kernel_args);
      values_kernel.launch(*context.stream, one_thread_each(rows * spec.q_heads * spec.out_dim()), kernel_args);
    }
    gpu::turn_output_back(spec, alone, *context.stream);
  }

 private:
  std::unique_ptr<OpKernel<RopeAppend>> append_;
};

}  // namespace

std::unique_ptr<AttentionBackend> make_check_attention(DeviceKind kind) { return std::make_unique<CheckAttention>(kind); }

}  // namespace rocmforge
