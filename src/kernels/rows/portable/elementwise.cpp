#include "kernels/launch/gpu_kernel.h"
#include "kernels/rows/kernels.h"
#include "kernels/rows/portable/elementwise_args.h"
#include "kernels/rows/portable/held_norm.h"

namespace rocmforge {
namespace {

constexpr Kernel<gpu::RmsNormArgs> rms_norm_kernel{"elementwise", "rms_norm", LaunchOrder::by_kernel};
constexpr Kernel<gpu::LayerNormArgs> layer_norm_kernel{"elementwise", "layer_norm", LaunchOrder::by_kernel};
constexpr Kernel<gpu::GatedActivationArgs> silu_kernel{"elementwise", "gated_silu", LaunchOrder::by_kernel};
constexpr Kernel<gpu::GatedActivationArgs> gelu_kernel{"elementwise", "gated_gelu", LaunchOrder::by_kernel};
constexpr Kernel<gpu::GatedActivationArgs> gelu_quick_kernel{"elementwise", "gated_gelu_quick", LaunchOrder::by_kernel};
constexpr Kernel<gpu::GatedActivationArgs> gelu_tanh_kernel{"elementwise", "gated_gelu_tanh", LaunchOrder::by_kernel};
constexpr Kernel<gpu::GatedActivationArgs> relu_squared_kernel{"elementwise", "relu_squared", LaunchOrder::by_kernel};
constexpr Kernel<gpu::ResidualAddArgs> residual_add_kernel{"elementwise", "residual_add", LaunchOrder::by_kernel};
constexpr Kernel<gpu::GatherRowsArgs> gather_rows_kernel{"elementwise", "gather_rows", LaunchOrder::by_kernel};

constexpr std::int64_t elems_per_load = 4;

class GpuRmsNorm final : public PortableGpuKernel<RmsNorm> {
 public:
  using PortableGpuKernel::PortableGpuKernel;

  void run(const RmsNorm::Spec& spec, const RmsNorm::Args& args, ExecutionContext& context) const override {
    check_arguments(spec, args);
    if (args.rows == 0) {
      return;
    }
    // The threads, and with them the order of the sum, depend on the width alone.
    const std::uint32_t threads = threads_for(divide_up(spec.dim, elems_per_load), 1024);
    const gpu::RmsNormArgs norm{.x = args.x,
                                .weight = args.weight,
                                .out = args.out,
                                .residual = args.residual,
                                .rows = args.rows,
                                .dim = spec.dim,
                                .stride = args.stride != 0 ? args.stride : spec.dim,
                                .groups = spec.groups,
                                .eps = spec.eps,
                                .factor = args.factor,
                                .scale = args.scale};
    auto* const held = dynamic_cast<gpu::TakesNorm*>(context.stream->held());
    if (args.rows > 1 || held == nullptr || !held->join(norm, threads)) {
      rms_norm_kernel.launch(*context.stream, launch_of(args.rows, threads), norm);
    }
  }
};

class GpuLayerNorm final : public PortableGpuKernel<LayerNorm> {
 public:
  using PortableGpuKernel::PortableGpuKernel;

  void run(const LayerNorm::Spec& spec, const LayerNorm::Args& args, ExecutionContext& context) const override {
    check_arguments(spec, args);
    if (args.rows > 0) {
      layer_norm_kernel.launch(*context.stream, launch_of(args.rows * spec.groups, threads_for(spec.dim, 1024)),
                               {.x = args.x,
                                .weight = args.weight,
                                .bias = spec.bias ? args.bias : nullptr,
                                .out = args.out,
                                .rows = args.rows,
                                .dim = spec.dim,
                                .stride = row_stride(spec, args),
                                .groups = spec.groups,
                                .eps = spec.eps});
    }
  }
};

class GpuGatedActivation final : public PortableGpuKernel<GatedActivation> {
 public:
  using PortableGpuKernel::PortableGpuKernel;

  void run(const GatedActivation::Spec& spec, const GatedActivation::Args& args, ExecutionContext& context) const override {
    check_arguments(spec, args);
    if (args.tokens == 0) {
      return;
    }
    const std::int64_t loads = divide_up(spec.width, elems_per_load);
    const std::uint32_t threads = threads_for(loads, 256);
    const auto& kernel = spec.activation == Activation::silu         ? silu_kernel
                         : spec.activation == Activation::gelu_tanh  ? gelu_tanh_kernel
                         : spec.activation == Activation::gelu       ? gelu_kernel
                         : spec.activation == Activation::gelu_quick ? gelu_quick_kernel
                                                                     : relu_squared_kernel;
    kernel.launch(*context.stream, launch_of(divide_up(loads, threads), args.tokens, threads),
                  {.gate = spec.gated ? args.gate : nullptr,
                   .up = args.up,
                   .out = args.out,
                   .tokens = args.tokens,
                   .width = spec.width,
                   .stride = args.stride,
                   .up_stride = args.up_stride != 0 ? args.up_stride : args.stride});
  }
};

/// For `count` elements in a row, whatever they belong to.
LaunchShape flat_launch(std::int64_t count) {
  constexpr std::uint32_t threads = 256;
  return launch_of(divide_up(count, threads * elems_per_load), threads);
}

class GpuResidualAdd final : public PortableGpuKernel<ResidualAdd> {
 public:
  using PortableGpuKernel::PortableGpuKernel;

  void run(const ResidualAdd::Spec& spec, const ResidualAdd::Args& args, ExecutionContext& context) const override {
    check_arguments(spec, args);
    if (args.count > 0) {
      residual_add_kernel.launch(
          *context.stream, flat_launch(args.count),
          {.a = args.a, .b = args.b, .out = args.out, .count = args.count, .factor = args.factor, .scale = args.scale});
    }
  }
};

class GpuGatherRows final : public PortableGpuKernel<GatherRows> {
 public:
  using PortableGpuKernel::PortableGpuKernel;

  void run(const GatherRows::Spec& spec, const GatherRows::Args& args, ExecutionContext& context) const override {
    check_arguments(spec, args, device());
    if (args.count == 0) {
      return;
    }
    const std::int64_t loads = divide_up(spec.dim, elems_per_load);
    const std::uint32_t threads = threads_for(loads, 256);
    gather_rows_kernel.launch(*context.stream, launch_of(divide_up(loads, threads), args.count, threads),
                              {.x = args.x, .ids = args.ids, .out = args.out, .count = args.count, .dim = spec.dim});
  }
};

}  // namespace

std::unique_ptr<OpKernel<RmsNorm>> make_gpu_rms_norm(DeviceKind kind) { return std::make_unique<GpuRmsNorm>(kind); }
std::unique_ptr<OpKernel<LayerNorm>> make_gpu_layer_norm(DeviceKind kind) { return std::make_unique<GpuLayerNorm>(kind); }
std::unique_ptr<OpKernel<GatedActivation>> make_gpu_gated_activation(DeviceKind kind) {
  return std::make_unique<GpuGatedActivation>(kind);
}
std::unique_ptr<OpKernel<ResidualAdd>> make_gpu_residual_add(DeviceKind kind) {
  return std::make_unique<GpuResidualAdd>(kind);
}
std::unique_ptr<OpKernel<GatherRows>> make_gpu_gather_rows(DeviceKind kind) { return std::make_unique<GpuGatherRows>(kind); }

}  // namespace rocmforge
