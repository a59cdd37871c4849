#include "kernels/launch/gpu_kernel.h"
#include "kernels/rows/kernels.h"
#include "kernels/rows/portable/streams_args.h"

namespace rocmforge {
namespace {

static_assert(gpu::mixed_streams == MixStreams::streams);

constexpr Kernel<gpu::MixStreamsArgs> streams_kernel{"streams", "mix_streams_alone", LaunchOrder::by_kernel};
constexpr Kernel<gpu::MixStreamsArgs> and_row_kernel{"streams", "mix_streams_and_row", LaunchOrder::by_kernel};
constexpr Kernel<gpu::MixStreamsArgs> matched_kernel{"streams", "mix_streams_matched", LaunchOrder::by_kernel};
constexpr Kernel<gpu::CutRowsArgs> cut_kernel{"streams", "cut_rows", LaunchOrder::by_kernel};

class GpuMixStreams final : public PortableGpuKernel<MixStreams> {
 public:
  using PortableGpuKernel::PortableGpuKernel;

  void run(const MixStreams::Spec& spec, const MixStreams::Args& args, ExecutionContext& context) const override {
    check_arguments(spec, args);
    if (args.tokens == 0) {
      return;
    }
    const auto& kernel = spec.inputs == MixStreams::Inputs::streams   ? streams_kernel
                         : spec.inputs == MixStreams::Inputs::and_row ? and_row_kernel
                                                                      : matched_kernel;
    // The threads, and with them the order of sums, depend on the width alone.
    kernel.launch(*context.stream,
                  launch_of(args.tokens, threads_for(divide_up(spec.dim, std::int64_t{4}), gpu::mixing_threads)),
                  {.x = args.x,
                   .row = spec.has_row() ? args.row : nullptr,
                   .logits = args.logits,
                   .base = args.base,
                   .coefs = args.logits != nullptr ? args.coefs : nullptr,
                   .first = args.first,
                   .factors = args.factors,
                   .tokens = args.tokens,
                   .dim = spec.dim,
                   .least_square = static_cast<float>(MixStreams::least_square),
                   .unused = 0});
  }
};

class GpuCutRows final : public PortableGpuKernel<CutRows> {
 public:
  using PortableGpuKernel::PortableGpuKernel;

  void run(const CutRows::Spec& spec, const CutRows::Args& args, ExecutionContext& context) const override {
    check_arguments(spec, args);
    if (args.rows > 0) {
      cut_kernel.launch(*context.stream, launch_of(args.rows, threads_for(spec.width, 1024)),
                        {.x = args.x,
                         .rows = args.rows,
                         .width = spec.width,
                         .stride = args.stride,
                         .deviations = spec.deviations,
                         .unused = 0});
    }
  }
};

}  // namespace

std::unique_ptr<OpKernel<MixStreams>> make_gpu_mix_streams(DeviceKind kind) { return std::make_unique<GpuMixStreams>(kind); }
std::unique_ptr<OpKernel<CutRows>> make_gpu_cut_rows(DeviceKind kind) { return std::make_unique<GpuCutRows>(kind); }

}  // namespace rocmforge
