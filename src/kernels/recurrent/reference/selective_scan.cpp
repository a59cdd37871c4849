#include <cmath>
#include <vector>

#include "kernels/launch/parallel.h"
#include "kernels/launch/reference_kernel.h"
#include "kernels/recurrent/kernels.h"
#include "kernels/recurrent/reference/recurrence.h"
#include "kernels/rows/reference/activation.h"

namespace rocmforge {
namespace {

class ReferenceSelectiveScan final : public AnyReference<SelectiveScan> {
 public:
  void run(const SelectiveScan::Spec& spec, const SelectiveScan::Args& args, ExecutionContext& context) const override {
    check_arguments(spec, args);
    for_each_head(context, args.batch.num_sequences, spec.channels, [&](std::int64_t s, std::int64_t channel) {
      for_each_row(args.states, args.batch, s, channel * spec.state_size, spec.state_size,
                   [&](std::int64_t t, std::vector<float>& state) { advance(spec, args, t, channel, state); });
    });
  }

 private:
  static void advance(const SelectiveScan::Spec& spec, const SelectiveScan::Args& args, std::int64_t t, std::int64_t channel,
                      std::vector<float>& state) {
    const double x = args.x[t * spec.channels + channel];
    const double raw = args.dt[t * args.stride + channel];
    const double step = raw > 30.0 ? raw : std::log1p(std::exp(raw));
    double sum = double{args.d[channel]} * x;
    for (std::int64_t n = 0; n < spec.state_size; ++n) {
      const double decay = std::exp(step * double{args.a[channel * spec.state_size + n]});
      float& element = state[static_cast<std::size_t>(n)];
      element = static_cast<float>(decay * double{element} + step * x * double{args.b[t * args.bc_stride + n]});
      sum += double{element} * double{args.c[t * args.bc_stride + n]};
    }
    const double gate = activate(Activation::silu, double{args.z[t * args.stride + channel]});
    args.out[t * spec.channels + channel] = static_cast<float>(sum * gate);
  }
};

}  // namespace

std::unique_ptr<OpKernel<SelectiveScan>> make_reference_selective_scan() {
  return std::make_unique<ReferenceSelectiveScan>();
}

}  // namespace rocmforge
