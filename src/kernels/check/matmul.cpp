#include <limits>

#include "kernels/check/check_kernel.h"
#include "kernels/check/kernels.h"
#include "kernels/check/launch.h"
#include "kernels/check/matmul_args.h"

namespace rocmforge {
namespace {

using check_kernels::MatmulCheckArgs;
using check_kernels::one_thread_each;
using check_kernels::PostNormArgs;

constexpr Kernel<MatmulCheckArgs> matmul_kernel{"matmul_check", "check_matmul"};
constexpr Kernel<PostNormArgs> post_norm_kernel{"matmul_check", "check_post_norm"};

MatmulCheckArgs::Part part_of(const MatmulOutput& output, std::int64_t k) {
  return {.weight = output.weight,
          .bias = output.bias,
          .row_bytes = static_cast<std::int64_t>(row_bytes(output.dtype, k)),
          .scale = double{output.scale},
          .dtype = output.dtype,
          .unused = 0};
}

class CheckMatmul final : public AnyCheckKernel<Matmul> {
 public:
  using AnyCheckKernel::AnyCheckKernel;
  /// The factors of the norms.
  [[nodiscard]] std::size_t workspace_bytes(std::int64_t tokens, std::int64_t) const override {
    return static_cast<std::size_t>(tokens) * sizeof(double);
  }
  [[nodiscard]] MatmulFusions fusions() const override {
    constexpr std::int64_t any = std::numeric_limits<std::int64_t>::max();
    return {any, any, any};
  }

  void run(const Matmul::Args& call, ExecutionContext& context) const override {
    check_arguments(call, fusions());
    if (call.tokens == 0) {
      return;
    }
    Stream& stream = *context.stream;
    MatmulCheckArgs args{};
    args.x = call.x;
    args.x_stride = call.x_stride;
    args.tokens = call.tokens;
    args.k = call.k;
    args.activation = call.activation;
    auto* const factors = static_cast<double*>(call.workspace);
    const auto find_factors = [&](const float* rows, std::int64_t stride, float eps) {
      check(factors != nullptr, "matmul: workspace is null");
      check_kernels::row_factors_kernel.launch(
          stream, one_thread_each(call.tokens),
          {.x = rows, .factors = factors, .tokens = call.tokens, .k = call.k, .x_stride = stride, .eps = eps});
    };
    if (call.post_norm != nullptr) {
      find_factors(call.post_norm->y, call.post_norm->y_stride, call.post_norm->eps);
      add_post_norm(call, factors, stream);
      args.x = call.post_norm->out;
      args.x_stride = call.post_norm->out_stride;
    }
    if (call.norm_weight != nullptr) {
      find_factors(args.x, args.x_stride, call.norm_eps);
      args.norm_weight = call.norm_weight;
      args.factors = factors;
    }
    for (const MatmulOutput& output : call.outputs.first(call.gated ? 1 : call.outputs.size())) {
      args.first = part_of(output, call.k);
      args.gated = call.gated ? 1 : 0;
      args.up = call.gated ? part_of(call.outputs[1], call.k) : MatmulCheckArgs::Part{};
      args.out = output.out;
      args.n = output.n;
      args.out_stride = output.stride;
      args.accumulate = output.accumulate ? 1 : 0;
      matmul_kernel.launch(stream, one_thread_each(call.tokens * output.n), args);
    }
  }

 private:
  static void add_post_norm(const Matmul::Args& call, const double* factors, Stream& stream) {
    const MatmulPostNorm& post = *call.post_norm;
    post_norm_kernel.launch(stream, one_thread_each(call.tokens * call.k),
                            {.x = call.x,
                             .y = post.y,
                             .weight = post.weight,
                             .factors = factors,
                             .out = post.out,
                             .tokens = call.tokens,
                             .k = call.k,
                             .x_stride = call.x_stride,
                             .y_stride = post.y_stride,
                             .out_stride = post.out_stride,
                             .factor = double{post.factor},
                             .scale = double{post.scale}});
  }
};

}  // namespace

std::unique_ptr<MatmulKernel> make_check_matmul(DeviceKind kind) { return std::make_unique<CheckMatmul>(kind); }

}  // namespace rocmforge
