#include <fmt/format.h>

#include <array>

#include "kernels/gpu/attention_launch.h"
#include "kernels/gpu/kernels.h"

namespace rocmforge {
namespace {

constexpr std::int32_t rows_of_a_group = 64;

struct FlashKernels {
  std::int32_t head_dim;
  Kernel<gpu::AttentionArgs> f16;
  Kernel<gpu::AttentionArgs> bf16;
};
constexpr std::array flash_kernels{
    FlashKernels{64, {"flash", "flash_64_f16"}, {"flash", "flash_64_bf16"}},
    FlashKernels{80, {"flash", "flash_80_f16"}, {"flash", "flash_80_bf16"}},
    FlashKernels{96, {"flash", "flash_96_f16"}, {"flash", "flash_96_bf16"}},
    FlashKernels{128, {"flash", "flash_128_f16"}, {"flash", "flash_128_bf16"}},
    FlashKernels{192, {"flash", "flash_192_f16"}, {"flash", "flash_192_bf16"}},
    FlashKernels{256, {"flash", "flash_256_f16"}, {"flash", "flash_256_bf16"}},
};

const FlashKernels* find_kernels(std::int32_t head_dim) {
  for (const FlashKernels& kernels : flash_kernels) {
    if (kernels.head_dim == head_dim) {
      return &kernels;
    }
  }
  return nullptr;
}

class FlashAttention final : public gpu::GpuAttention {
 public:
  using GpuAttention::GpuAttention;
  [[nodiscard]] std::string_view name() const override { return "flash"; }
  [[nodiscard]] KernelPriority priority() const override { return KernelPriority::family; }

  [[nodiscard]] Support supports(const Attention::Spec& spec, const DeviceInfo&) const override {
    if (Support support = check_separate_values(spec); !support.ok) {
      return support;
    }
    if (find_kernels(spec.head_dim) == nullptr) {
      return Support::no(fmt::format("head_dim {} is not one of 64, 80, 96, 128, 192, 256", spec.head_dim));
    }
    if (spec.kv_dtype != DType::f16 && spec.kv_dtype != DType::bf16) {
      return Support::no(fmt::format("K and V of type {}: matrix cores take F16 and BF16", rocmforge::name(spec.kv_dtype)));
    }
    return Support::yes();
  }

  [[nodiscard]] std::size_t workspace_bytes(const Attention::Spec&, const AttentionLimits&) const override { return 0; }

  void run(const Attention::Spec& spec, const KvLayout& layout, const Attention::Args& args,
           ExecutionContext& context) const override {
    const gpu::AttentionArgs kernel_args = attention_args(spec, layout, args);
    gpu::check_vector_loads(kernel_args.kv, spec.kv_dtype);
    const FlashKernels* kernels = find_kernels(spec.head_dim);
    check(kernels != nullptr && (spec.kv_dtype == DType::f16 || spec.kv_dtype == DType::bf16),
          "attention: flash does not support this spec");
    check(args.batch.num_sequences <= 65535 && spec.q_heads <= 65535, "attention: more than 65,535 sequences or heads");
    const std::int32_t tiles = (args.batch.max_q_len + rows_of_a_group - 1) / rows_of_a_group;
    if (args.batch.num_tokens == 0 || tiles == 0) {
      return;
    }
    LaunchShape shape;
    shape.grid = {static_cast<std::uint32_t>(tiles), static_cast<std::uint32_t>(spec.q_heads),
                  static_cast<std::uint32_t>(args.batch.num_sequences)};
    shape.block[0] = gpu::four_waves(context);
    (spec.kv_dtype == DType::f16 ? kernels->f16 : kernels->bf16).launch(*context.stream, shape, kernel_args);
  }
};

}  // namespace

std::unique_ptr<AttentionBackend> make_gpu_flash_attention(DeviceKind kind) {
  return std::make_unique<FlashAttention>(kind);
}

}  // namespace rocmforge
