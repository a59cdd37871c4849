#include "kernels/recurrent/portable/causal_conv_args.h"

#include "kernels/launch/gpu_kernel.h"
#include "kernels/recurrent/kernels.h"

namespace rocmforge {
namespace {

constexpr Kernel<gpu::CausalConvArgs> causal_conv_kernel{"causal_conv", "causal_conv", LaunchOrder::by_kernel};

class GpuCausalConv final : public PortableGpuKernel<CausalConv> {
 public:
  using PortableGpuKernel::PortableGpuKernel;

  void run(const CausalConv::Spec& spec, const CausalConv::Args& args, ExecutionContext& context) const override {
    check_arguments(spec, args, device());
    const std::int64_t tokens = args.batch.num_tokens;
    if (tokens == 0) {
      return;
    }
    const std::uint32_t threads = threads_for(spec.channels, 256);
    causal_conv_kernel.launch(*context.stream, launch_of(divide_up(spec.channels, threads), tokens, threads),
                              {.x = args.x,
                               .weight = args.weight,
                               .bias = args.bias,
                               .out = args.out,
                               .states = args.states.data,
                               .slots = args.batch.states,
                               .query_offsets = args.batch.query_offsets,
                               .sequence_of = args.batch.sequence_of,
                               .tokens = tokens,
                               .channels = spec.channels,
                               .taps = spec.taps,
                               .x_stride = args.x_stride,
                               .slot_stride = args.states.slot_stride,
                               .gates = spec.gates,
                               .silu = spec.silu});
  }
};

}  // namespace

std::unique_ptr<OpKernel<CausalConv>> make_gpu_causal_conv(DeviceKind kind) { return std::make_unique<GpuCausalConv>(kind); }

}  // namespace rocmforge
