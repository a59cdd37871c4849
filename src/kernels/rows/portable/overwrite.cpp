#include "kernels/launch/gpu_kernel.h"
#include "kernels/rows/kernels.h"
#include "kernels/rows/portable/overwrite_args.h"

namespace rocmforge {
namespace {

constexpr Kernel<gpu::OverwriteRowsArgs> overwrite_rows_kernel{"overwrite", "overwrite_rows", LaunchOrder::by_kernel};

class GpuOverwriteRows final : public PortableGpuKernel<OverwriteRows> {
 public:
  using PortableGpuKernel::PortableGpuKernel;

  void run(const OverwriteRows::Spec& spec, const OverwriteRows::Args& args, ExecutionContext& context) const override {
    check_arguments(spec, args, device());
    if (args.count == 0) {
      return;
    }
    const std::int64_t loads = divide_up(spec.dim, std::int64_t{4});
    const std::uint32_t threads = threads_for(loads, 256);
    overwrite_rows_kernel.launch(*context.stream, launch_of(divide_up(loads, threads), args.count, threads),
                                 {.x = args.x,
                                  .from = args.from,
                                  .ids = args.ids,
                                  .out = args.out,
                                  .x_stride = args.x_stride,
                                  .count = args.count,
                                  .dim = spec.dim,
                                  .add = args.add ? 1 : 0});
  }
};

}  // namespace

std::unique_ptr<OpKernel<OverwriteRows>> make_gpu_overwrite_rows(DeviceKind kind) {
  return std::make_unique<GpuOverwriteRows>(kind);
}

}  // namespace rocmforge
