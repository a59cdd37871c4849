#include <fmt/format.h>

#include <array>

#include "kernels/amd/architectures.h"
#include "kernels/amd/attention.h"
#include "kernels/amd/attention_prefill_args.h"
#include "kernels/gpu/attention_launch.h"

namespace rocmforge {
namespace {

struct PrefillKernels {
  std::int32_t head_dim;
  Kernel<gpu::AttentionArgs> f16;
  Kernel<gpu::AttentionArgs> bf16;
};
constexpr std::array prefill_kernels{
    PrefillKernels{192, {"attention_prefill", "prefill_192_f16"}, {"attention_prefill", "prefill_192_bf16"}},
    PrefillKernels{256, {"attention_prefill", "prefill_256_f16"}, {"attention_prefill", "prefill_256_bf16"}},
    PrefillKernels{512, {"attention_prefill", "prefill_512_f16"}, {"attention_prefill", "prefill_512_bf16"}},
};

const PrefillKernels* find_kernels(std::int32_t head_dim) {
  for (const PrefillKernels& kernels : prefill_kernels) {
    if (kernels.head_dim == head_dim) {
      return &kernels;
    }
  }
  return nullptr;
}

class AmdAttentionPrefill final : public gpu::GpuAttention {
 public:
  AmdAttentionPrefill() : GpuAttention(DeviceKind::hip) {}
  [[nodiscard]] std::string_view name() const override { return "amd_prefill"; }
  [[nodiscard]] KernelPriority priority() const override { return KernelPriority::architecture; }

  [[nodiscard]] Support supports(const Attention::Spec& spec, const DeviceInfo& device) const override {
    if (Support support = check_separate_values(spec); !support.ok) {
      return support;
    }
    if (Support support = amd::check_architecture(device); !support.ok) {
      return support;
    }
    if (spec.decode) {
      return Support::no("for steps of more than one query row a sequence");
    }
    if (find_kernels(spec.head_dim) == nullptr) {
      return Support::no(fmt::format("head_dim {} is none of 192, 256 and 512", spec.head_dim));
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
    const PrefillKernels* kernels = find_kernels(spec.head_dim);
    check(kernels != nullptr && (spec.kv_dtype == DType::f16 || spec.kv_dtype == DType::bf16),
          "attention: amd_prefill does not support this spec");
    check(args.batch.num_sequences <= 65535 && spec.q_heads <= 65535, "attention: more than 65,535 sequences or heads");
    const int wave_size = context.stream->device().info().wave_size;
    const bool split = wave_size == 64 && spec.head_dim <= 256;
    check(!split || kernel_args.kv.token_stride <= amd::most_split_stride,
          "attention: keys are more than 4,194,304 elements apart");
    const int row_waves = amd::prefill_row_waves(spec.head_dim);
    const int rows = split ? amd::prefill_split_rows : 16 * row_waves;
    const int waves = split ? 4 : row_waves * amd::prefill_parts(spec.head_dim);
    const std::int32_t tiles = (args.batch.max_q_len + rows - 1) / rows;
    if (args.batch.num_tokens == 0 || tiles == 0) {
      return;
    }
    LaunchShape shape;
    shape.grid = {static_cast<std::uint32_t>(tiles), static_cast<std::uint32_t>(spec.q_heads),
                  static_cast<std::uint32_t>(args.batch.num_sequences)};
    shape.block[0] = static_cast<std::uint32_t>(waves * wave_size);
    (spec.kv_dtype == DType::f16 ? kernels->f16 : kernels->bf16).launch(*context.stream, shape, kernel_args);
  }
};

}  // namespace

std::unique_ptr<AttentionBackend> make_amd_attention_prefill() { return std::make_unique<AmdAttentionPrefill>(); }

}  // namespace rocmforge
