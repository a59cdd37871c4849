#include "kernels/check/check_kernel.h"
#include "kernels/check/kernels.h"
#include "kernels/check/sample_args.h"

namespace rocmforge {
namespace {

using check_kernels::SampleCheckArgs;

constexpr Kernel<SampleCheckArgs> sample_kernel{"sample_check", "check_sample"};

class CheckSample final : public AnyCheckKernel<SampleTokens> {
 public:
  using AnyCheckKernel::AnyCheckKernel;
  void run(const SampleTokens::Spec& spec, const SampleTokens::Args& args, ExecutionContext& context) const override {
    check_arguments(spec, args, device());
    if (args.num_rows == 0) {
      return;
    }
    check(args.workspace != nullptr, "sample: workspace is null");
    sample_kernel.launch(*context.stream, launch_of(args.num_rows, check_kernels::sample_check_threads),
                         {.logits = args.logits,
                          .rows = args.rows,
                          .adjustments = args.adjustments,
                          .masks = args.masks,
                          .out = args.out,
                          .probabilities = args.probabilities,
                          .scratch = static_cast<SampleScratch*>(args.workspace),
                          .num_rows = args.num_rows,
                          .vocab = spec.vocab});
  }
};

}  // namespace

std::unique_ptr<OpKernel<SampleTokens>> make_check_sample(DeviceKind kind) { return std::make_unique<CheckSample>(kind); }

}  // namespace rocmforge
