#include <fmt/format.h>

#include <array>

#include "kernels/attention/amd/attention_prefill_args.h"
#include "kernels/attention/kernels.h"
#include "kernels/attention/portable/flash_launch.h"
#include "kernels/launch/amd/architectures.h"

namespace rocmforge {
namespace {

constexpr std::array prefill_kernels{
    gpu::PromptKernels{192, {"attention_prefill", "prefill_192_f16"}, {"attention_prefill", "prefill_192_bf16"}},
    gpu::PromptKernels{256, {"attention_prefill", "prefill_256_f16"}, {"attention_prefill", "prefill_256_bf16"}},
    gpu::PromptKernels{512, {"attention_prefill", "prefill_512_f16"}, {"attention_prefill", "prefill_512_bf16"}},
};

class AmdAttentionPrefill final : public gpu::GpuAttention {
 public:
  AmdAttentionPrefill() : GpuAttention(DeviceKind::hip) {}
  [[nodiscard]] std::string_view name() const override { return "amd_prefill"; }
  [[nodiscard]] KernelPriority priority() const override { return KernelPriority::architecture; }

  [[nodiscard]] Support supports(const Attention::Spec& spec, const DeviceInfo& device) const override {
    if (Support support = check_separate_values(spec); !support.ok) {
      return support;
    }
    if (Support support = check_no_spans(spec); !support.ok) {
      return support;
    }
    if (Support support = amd::check_architecture(device); !support.ok) {
      return support;
    }
    if (spec.most_rows > 0) {
      return Support::no("for steps of many query rows a sequence");
    }
    if (gpu::find_prompt_kernels(prefill_kernels, spec.head_dim) == nullptr) {
      return Support::no(fmt::format("head_dim {} is none of 192, 256 and 512", spec.head_dim));
    }
    return gpu::check_prompt_type(spec.kv_dtype);
  }

  [[nodiscard]] std::size_t workspace_bytes(const Attention::Spec&, const AttentionLimits&) const override { return 0; }

  void run(const Attention::Spec& spec, const KvLayout& layout, const Attention::Args& args,
           ExecutionContext& context) const override {
    const gpu::AttentionArgs kernel_args = attention_args(spec, layout, args);
    const int wave_size = context.stream->device().info().wave_size;
    const bool split = wave_size == 64 && spec.head_dim <= 256;
    check(!split || kernel_args.kv.token_stride <= amd::most_split_stride,
          "attention: keys are more than 4,194,304 elements apart");
    const int row_waves = amd::prefill_row_waves(spec.head_dim);
    const int rows = split ? amd::prefill_split_rows : 16 * row_waves;
    const int waves = split ? 4 : row_waves * amd::prefill_parts(spec.head_dim);
    gpu::launch_prompt(name(), gpu::find_prompt_kernels(prefill_kernels, spec.head_dim), spec, args, kernel_args, rows,
                       static_cast<std::uint32_t>(waves * wave_size), *context.stream);
  }
};

}  // namespace

std::unique_ptr<AttentionBackend> make_amd_attention_prefill() { return std::make_unique<AmdAttentionPrefill>(); }

}  // namespace rocmforge
