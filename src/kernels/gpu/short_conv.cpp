#include "kernels/gpu/short_conv_args.h"

#include "kernels/gpu/gpu_kernel.h"
#include "kernels/gpu/kernels.h"

namespace rocmforge {
namespace {

constexpr Kernel<gpu::ShortConvArgs> short_conv_kernel{"short_conv", "short_conv", LaunchOrder::by_kernel};

class GpuShortConv final : public PortableGpuKernel<ShortConv> {
 public:
  using PortableGpuKernel::PortableGpuKernel;

  void run(const ShortConv::Spec& spec, const ShortConv::Args& args, ExecutionContext& context) const override {
    check_arguments(spec, args, device());
    const std::int64_t tokens = args.batch.num_tokens;
    if (tokens == 0) {
      return;
    }
    const std::uint32_t threads = threads_for(spec.channels, 256);
    short_conv_kernel.launch(*context.stream, launch_of(divide_up(spec.channels, threads), tokens, threads),
                             {.x = args.x,
                              .weight = args.weight,
                              .out = args.out,
                              .states = args.states.data,
                              .slots = args.batch.states,
                              .query_offsets = args.batch.query_offsets,
                              .sequence_of = args.batch.sequence_of,
                              .tokens = tokens,
                              .channels = spec.channels,
                              .taps = spec.taps,
                              .slot_stride = args.states.slot_stride});
  }
};

}  // namespace

std::unique_ptr<OpKernel<ShortConv>> make_gpu_short_conv(DeviceKind kind) { return std::make_unique<GpuShortConv>(kind); }

}  // namespace rocmforge
