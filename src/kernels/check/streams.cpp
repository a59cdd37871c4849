#include "kernels/check/streams_args.h"

#include "kernels/check/check_kernel.h"
#include "kernels/check/kernels.h"
#include "kernels/check/launch.h"

namespace rocmforge {
namespace {

constexpr Kernel<check_kernels::MixStreamsCheckArgs> mix_streams_kernel{"streams_check", "check_mix_streams"};
constexpr Kernel<check_kernels::CutRowsCheckArgs> cut_rows_kernel{"streams_check", "check_cut_rows"};

class CheckMixStreams final : public AnyCheckKernel<MixStreams> {
 public:
  using AnyCheckKernel::AnyCheckKernel;
  void run(const MixStreams::Spec& spec, const MixStreams::Args& args, ExecutionContext& context) const override {
    check_arguments(spec, args);
    mix_streams_kernel.launch(*context.stream, check_kernels::one_thread_each(args.tokens),
                              {.x = args.x,
                               .row = spec.has_row() ? args.row : nullptr,
                               .logits = args.logits,
                               .base = args.base,
                               .coefs = args.logits != nullptr ? args.coefs : nullptr,
                               .first = args.first,
                               .factors = args.factors,
                               .tokens = args.tokens,
                               .dim = spec.dim,
                               .inputs = spec.inputs,
                               .unused = 0});
  }
};

class CheckCutRows final : public AnyCheckKernel<CutRows> {
 public:
  using AnyCheckKernel::AnyCheckKernel;
  void run(const CutRows::Spec& spec, const CutRows::Args& args, ExecutionContext& context) const override {
    check_arguments(spec, args);
    cut_rows_kernel.launch(
        *context.stream, check_kernels::one_thread_each(args.rows),
        {.x = args.x, .rows = args.rows, .width = spec.width, .stride = args.stride, .deviations = double{spec.deviations}});
  }
};

}  // namespace

std::unique_ptr<OpKernel<MixStreams>> make_check_mix_streams(DeviceKind kind) {
  return std::make_unique<CheckMixStreams>(kind);
}
std::unique_ptr<OpKernel<CutRows>> make_check_cut_rows(DeviceKind kind) { return std::make_unique<CheckCutRows>(kind); }

}  // namespace rocmforge
