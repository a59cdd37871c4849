#include <vector>

#include "kernels/launch/parallel.h"
#include "kernels/launch/reference_kernel.h"
#include "kernels/recurrent/kernels.h"
#include "kernels/rows/reference/activation.h"

namespace rocmforge {
namespace {

class ReferenceCausalConv final : public AnyReference<CausalConv> {
 public:
  void run(const CausalConv::Spec& spec, const CausalConv::Args& args, ExecutionContext& context) const override {
    check_arguments(spec, args);
    for_each_range(context, args.batch.num_sequences, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t s = begin; s < end; ++s) {
        for (std::int64_t channel = 0; channel < spec.channels; ++channel) {
          convolve(spec, args, s, channel);
        }
      }
    });
  }

 private:
  /// One channel of a sequence, row after row.
  static void convolve(const CausalConv::Spec& spec, const CausalConv::Args& args, std::int64_t s, std::int64_t channel) {
    const StateSlots& slots = args.batch.states[s];
    const auto state = [&](std::int32_t slot, std::int64_t row) -> float& {
      return args.states.floats(slot)[row * spec.channels + channel];
    };
    std::vector<float> window(static_cast<std::size_t>(spec.taps), 0.0f);  // the oldest first
    for (std::int64_t row = 0; slots.read >= 0 && row < spec.taps - 1; ++row) {
      window[static_cast<std::size_t>(row) + 1] = state(slots.read, row);
    }
    const auto keep = [&](std::int32_t slot) {
      for (std::int64_t row = 0; slot >= 0 && row < spec.taps - 1; ++row) {
        state(slot, row) = window[static_cast<std::size_t>(row) + 1];
      }
    };
    const std::int64_t first = args.batch.query_offsets[s];
    for (std::int64_t t = first; t < args.batch.query_offsets[s + 1]; ++t) {
      const float* row = args.x + t * args.x_stride + channel;
      window.erase(window.begin());
      window.push_back(spec.gates ? row[0] * row[2 * spec.channels] : row[0]);
      double sum = args.bias != nullptr ? double{args.bias[channel]} : 0.0;
      for (std::size_t tap = 0; tap < window.size(); ++tap) {
        sum += double{args.weight[channel * spec.taps + static_cast<std::int64_t>(tap)]} * double{window[tap]};
      }
      sum = spec.silu ? activate(Activation::silu, sum) : sum;
      args.out[t * spec.channels + channel] = static_cast<float>((spec.gates ? double{row[spec.channels]} : 1.0) * sum);
      if (t - first + 1 == slots.keep_rows) {
        keep(slots.keep);
      }
    }
    keep(slots.write);
  }
};

}  // namespace

std::unique_ptr<OpKernel<CausalConv>> make_reference_causal_conv() { return std::make_unique<ReferenceCausalConv>(); }

}  // namespace rocmforge
