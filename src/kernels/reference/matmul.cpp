#include <vector>

#include "kernels/arguments.h"
#include "kernels/parallel.h"
#include "kernels/reference/kernels.h"
#include "tensor/quant/dequantize.h"

namespace rocmforge {
namespace {

/// Expands each weight row to float and takes its product with every token's input.
class ReferenceMatmul final : public ReferenceKernel<MatmulKernel> {
 public:
  [[nodiscard]] Support supports(const Matmul::Spec& spec, const DeviceInfo&) const override { return check_spec(spec); }
  [[nodiscard]] std::size_t packed_bytes(const Matmul::Spec&) const override { return 0; }
  void pack(const Matmul::Spec&, const void*, void*, ExecutionContext&) const override {}
  [[nodiscard]] std::size_t workspace_bytes(std::int64_t, std::int64_t) const override { return 0; }

  void run(const Matmul::Args& args, ExecutionContext& context) const override {
    check_arguments(args);
    for (const MatmulOutput& output : args.outputs) {
      for_each_range(context, output.n, 16, [&](std::int64_t begin, std::int64_t end) { rows(args, output, begin, end); });
    }
  }

 private:
  static void rows(const Matmul::Args& args, const MatmulOutput& output, std::int64_t begin, std::int64_t end) {
    const std::size_t bytes = row_bytes(output.dtype, args.k);
    std::vector<float> weight(static_cast<std::size_t>(args.k));
    for (std::int64_t n = begin; n < end; ++n) {
      dequantize_row(output.dtype, static_cast<const std::byte*>(output.weight) + static_cast<std::size_t>(n) * bytes,
                     weight.data(), args.k);
      for (std::int64_t t = 0; t < args.tokens; ++t) {
        const float* x = args.x + t * args.x_stride;
        double sum = output.bias != nullptr ? double{output.bias[n]} : 0.0;
        for (std::int64_t i = 0; i < args.k; ++i) {
          sum += double{x[i]} * double{weight[static_cast<std::size_t>(i)]};
        }
        float& out = output.out[t * output.stride + n];
        out = static_cast<float>(output.accumulate ? double{out} + sum : sum);
      }
    }
  }
};

}  // namespace

std::unique_ptr<MatmulKernel> make_reference_matmul() { return std::make_unique<ReferenceMatmul>(); }

}  // namespace rocmforge
