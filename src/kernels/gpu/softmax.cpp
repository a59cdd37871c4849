#include "kernels/gpu/gpu_kernel.h"
#include "kernels/gpu/kernels.h"
#include "kernels/gpu/softmax_args.h"

namespace rocmforge {
namespace {

constexpr Kernel<gpu::RowSoftmaxArgs> row_softmax_kernel{"softmax", "row_softmax"};

class GpuRowSoftmax final : public PortableGpuKernel<RowSoftmax> {
 public:
  using PortableGpuKernel::PortableGpuKernel;

  void run(const RowSoftmax::Spec& spec, const RowSoftmax::Args& args, ExecutionContext& context) const override {
    check_arguments(spec, args);
    if (args.rows > 0) {
      row_softmax_kernel.launch(*context.stream, launch_of(args.rows, threads_for(divide_up(args.cols, 4), 1024)),
                                {.x = args.x, .rows = args.rows, .cols = args.cols});
    }
  }
};

}  // namespace

std::unique_ptr<OpKernel<RowSoftmax>> make_gpu_row_softmax(DeviceKind kind) { return std::make_unique<GpuRowSoftmax>(kind); }

}  // namespace rocmforge
