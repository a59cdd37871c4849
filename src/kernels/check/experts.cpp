#include "kernels/check/check_kernel.h"
#include "kernels/check/experts_args.h"
#include "kernels/check/kernels.h"
#include "kernels/check/launch.h"

namespace rocmforge {
namespace {

using check_kernels::ExpertsCheckArgs;

constexpr Kernel<ExpertsCheckArgs> experts_kernel{"experts_check", "check_experts"};

ExpertsCheckArgs::Part part_of(const ExpertWeight& weight, std::int64_t k) {
  return {.weight = weight.data,
          .bias = weight.bias,
          .scale = weight.scale,
          .expert_bytes = weight.expert_bytes,
          .row_bytes = static_cast<std::int64_t>(row_bytes(weight.dtype, k)),
          .bias_stride = weight.bias_stride,
          .dtype = weight.dtype,
          .unused = 0};
}

class CheckExpertMatmul final : public AnyCheckKernel<ExpertMatmul> {
 public:
  using AnyCheckKernel::AnyCheckKernel;

  void run(const ExpertMatmul::Args& call, ExecutionContext& context) const override {
    check_arguments(call, device());
    if (call.tokens == 0) {
      return;
    }
    ExpertsCheckArgs args{};
    for (std::size_t i = 0; i < call.weights.size(); ++i) {
      args.parts[i] = part_of(call.weights[i], call.k);
    }
    args.x = call.x;
    args.ids = call.ids;
    args.shares = call.shares;
    args.out = call.out;
    args.outputs = call.down() ? call.tokens : call.tokens * call.used;
    args.n = call.weights[0].n;
    args.k = call.k;
    args.used = call.used;
    args.down = call.down() ? 1 : 0;
    args.gated = call.weights.size() == 2 ? 1 : 0;
    args.activation = call.activation;
    experts_kernel.launch(*context.stream, check_kernels::one_thread_each(args.outputs * args.n), args);
  }
};

}  // namespace

std::unique_ptr<ExpertMatmulKernel> make_check_expert_matmul(DeviceKind kind) {
  return std::make_unique<CheckExpertMatmul>(kind);
}

}  // namespace rocmforge
