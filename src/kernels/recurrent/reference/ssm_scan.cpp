#include <cmath>
#include <vector>

#include "kernels/launch/parallel.h"
#include "kernels/launch/reference_kernel.h"
#include "kernels/recurrent/kernels.h"
#include "kernels/recurrent/reference/recurrence.h"
#include "kernels/rows/reference/activation.h"

namespace rocmforge {
namespace {

class ReferenceSsmScan final : public AnyReference<SsmScan> {
 public:
  void run(const SsmScan::Spec& spec, const SsmScan::Args& args, ExecutionContext& context) const override {
    check_arguments(spec, args);
    const std::int64_t elems = spec.head_dim * spec.state_size;
    for_each_head(context, args.batch.num_sequences, spec.heads, [&](std::int64_t s, std::int64_t head) {
      for_each_row(args.states, args.batch, s, head * elems, elems,
                   [&](std::int64_t t, std::vector<float>& state) { advance(spec, args, t, head, state); });
    });
  }

 private:
  static void advance(const SsmScan::Spec& spec, const SsmScan::Args& args, std::int64_t t, std::int64_t head,
                      std::vector<float>& state) {
    const float* row = args.x + t * spec.input_width();
    const float* b = row + spec.inner() + head / (spec.heads / spec.groups) * spec.state_size;
    const float* c = b + spec.groups * spec.state_size;
    const double raw = double{args.dt[t * args.stride + head]} + double{args.dt_bias[head]};
    const double step = raw > 30.0 ? raw : std::log1p(std::exp(raw));
    const double decay = std::exp(step * double{args.a[head]});
    for (std::int64_t p = 0; p < spec.head_dim; ++p) {
      const std::int64_t channel = head * spec.head_dim + p;
      const double x = row[channel];
      double sum = double{args.d[head]} * x;
      for (std::int64_t n = 0; n < spec.state_size; ++n) {
        float& element = state[static_cast<std::size_t>(p * spec.state_size + n)];
        element = static_cast<float>(decay * double{element} + step * x * double{b[n]});
        sum += double{element} * double{c[n]};
      }
      const double gate = activate(Activation::silu, double{args.z[t * args.stride + channel]});
      args.out[t * spec.inner() + channel] = static_cast<float>(sum * gate);
    }
  }
};

}  // namespace

std::unique_ptr<OpKernel<SsmScan>> make_reference_ssm_scan() { return std::make_unique<ReferenceSsmScan>(); }

}  // namespace rocmforge
