#include <fmt/format.h>

#include <array>

#include "kernels/attention/kernels.h"
#include "kernels/attention/portable/flash_launch.h"

namespace rocmforge {
namespace {

constexpr std::int32_t rows_of_a_group = 64;

constexpr std::array flash_kernels{
    gpu::PromptKernels{64, {"flash", "flash_64_f16"}, {"flash", "flash_64_bf16"}},
    gpu::PromptKernels{80, {"flash", "flash_80_f16"}, {"flash", "flash_80_bf16"}},
    gpu::PromptKernels{96, {"flash", "flash_96_f16"}, {"flash", "flash_96_bf16"}},
    gpu::PromptKernels{128, {"flash", "flash_128_f16"}, {"flash", "flash_128_bf16"}},
    gpu::PromptKernels{192, {"flash", "flash_192_f16"}, {"flash", "flash_192_bf16"}},
    gpu::PromptKernels{256, {"flash", "flash_256_f16"}, {"flash", "flash_256_bf16"}},
};

/// For rows that see further than themselves (Attention::Spec::spans).
constexpr std::array span_kernels{
    gpu::SpanKernels{128, {"flash_spans", "flash_spans_128_f16"}, {"flash_spans", "flash_spans_128_bf16"}},
    gpu::SpanKernels{256, {"flash_spans", "flash_spans_256_f16"}, {"flash_spans", "flash_spans_256_bf16"}},
};

class FlashAttention final : public gpu::GpuAttention {
 public:
  using GpuAttention::GpuAttention;
  [[nodiscard]] std::string_view name() const override { return "flash"; }
  [[nodiscard]] KernelPriority priority() const override { return KernelPriority::family; }

  [[nodiscard]] Support supports(const Attention::Spec& spec, const DeviceInfo&) const override {
    if (Support support = check_separate_values(spec); !support.ok) {
      return support;
    }
    if (spec.spans && gpu::find_prompt_kernels(span_kernels, spec.head_dim) == nullptr) {
      return Support::no(
          fmt::format("head_dim {} is neither 128 nor 256, with rows that see further than themselves", spec.head_dim));
    }
    if (gpu::find_prompt_kernels(flash_kernels, spec.head_dim) == nullptr) {
      return Support::no(fmt::format("head_dim {} is not one of 64, 80, 96, 128, 192, 256", spec.head_dim));
    }
    return gpu::check_prompt_type(spec.kv_dtype);
  }

  [[nodiscard]] std::size_t workspace_bytes(const Attention::Spec&, const AttentionLimits&) const override { return 0; }

  void run(const Attention::Spec& spec, const KvLayout& layout, const Attention::Args& args,
           ExecutionContext& context) const override {
    const gpu::AttentionArgs kernel_args = attention_args(spec, layout, args);
    if (spec.spans) {
      gpu::launch_prompt(name(), gpu::find_prompt_kernels(span_kernels, spec.head_dim), spec, args,
                         gpu::SpanAttentionArgs{kernel_args, args.batch.visible_end}, rows_of_a_group,
                         gpu::four_waves(context), *context.stream);
      return;
    }
    gpu::launch_prompt(name(), gpu::find_prompt_kernels(flash_kernels, spec.head_dim), spec, args, kernel_args,
                       rows_of_a_group, gpu::four_waves(context), *context.stream);
  }
};

}  // namespace

std::unique_ptr<AttentionBackend> make_gpu_flash_attention(DeviceKind kind) {
  return std::make_unique<FlashAttention>(kind);
}

}  // namespace rocmforge
