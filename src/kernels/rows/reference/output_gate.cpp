#include <cmath>

#include "base/error.h"
#include "kernels/launch/parallel.h"
#include "kernels/launch/reference_kernel.h"
#include "kernels/rows/kernels.h"

namespace rocmforge {
namespace {

double opening(OutputGate::Gate gate, double x) {
  switch (gate) {
    case OutputGate::Gate::sigmoid:
      return 1.0 / (1.0 + std::exp(-x));
    case OutputGate::Gate::silu:
      return x / (1.0 + std::exp(-x));
    case OutputGate::Gate::softplus:
      return x > 30.0 ? x : std::log1p(std::exp(x));
    case OutputGate::Gate::plain:
      return x;
  }
  fail_check("unknown gate");
}

class ReferenceOutputGate final : public AnyReference<OutputGate> {
 public:
  void run(const OutputGate::Spec& spec, const OutputGate::Args& args, ExecutionContext& context) const override {
    check_arguments(spec, args);
    for_each_range(context, args.tokens * spec.heads, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        gate_head(spec, args, i / spec.heads, i % spec.heads);
      }
    });
  }

 private:
  static void gate_head(const OutputGate::Spec& spec, const OutputGate::Args& args, std::int64_t t, std::int64_t head) {
    const float* x = args.x + t * args.x_stride + head * spec.dim;
    const float* gate = args.gate + t * args.gate_stride + head * (spec.of_heads ? 1 : spec.dim);
    float* out = args.out + t * spec.width() + head * spec.dim;
    double squares = 0.0;
    for (std::int32_t i = 0; i < spec.dim; ++i) {
      squares += double{x[i]} * double{x[i]};
    }
    const double scale = 1.0 / std::sqrt(squares / static_cast<double>(spec.dim) + double{spec.eps});
    for (std::int32_t i = 0; i < spec.dim; ++i) {
      const double factor = spec.norm ? scale * double{args.weight[i]} : 1.0;
      const double open = opening(spec.gate, double{gate[spec.of_heads ? 0 : i]});
      out[i] = static_cast<float>(double{x[i]} * factor * open);
    }
  }
};

}  // namespace

std::unique_ptr<OpKernel<OutputGate>> make_reference_output_gate() { return std::make_unique<ReferenceOutputGate>(); }

}  // namespace rocmforge
