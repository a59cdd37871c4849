#include <cmath>
#include <vector>

#include "kernels/launch/parallel.h"
#include "kernels/launch/reference_kernel.h"
#include "kernels/recurrent/kernels.h"
#include "kernels/recurrent/reference/recurrence.h"
#include "kernels/rows/reference/activation.h"

namespace rocmforge {
namespace {

std::vector<double> unit_vector(const float* x, std::int32_t count) {
  double squares = 0.0;
  for (std::int32_t i = 0; i < count; ++i) {
    squares += double{x[i]} * double{x[i]};
  }
  std::vector<double> unit(static_cast<std::size_t>(count));
  for (std::int32_t i = 0; i < count; ++i) {
    unit[static_cast<std::size_t>(i)] = double{x[i]} / std::sqrt(squares + double{GatedDeltaNet::norm_eps});
  }
  return unit;
}

class ReferenceDeltaNet final : public AnyReference<GatedDeltaNet> {
 public:
  void run(const GatedDeltaNet::Spec& spec, const GatedDeltaNet::Args& args, ExecutionContext& context) const override {
    check_arguments(spec, args);
    const std::int64_t elems = std::int64_t{spec.value_dim} * spec.key_dim;
    for_each_head(context, args.batch.num_sequences, spec.value_heads, [&](std::int64_t s, std::int64_t head) {
      for_each_row(args.states, args.batch, s, head * elems, elems, [&](std::int64_t t, std::vector<float>& state) {
        step(spec, args, t, static_cast<std::int32_t>(head), state);
      });
    });
  }

 private:
  /// Of each element of a key.
  static std::vector<double> decays(const GatedDeltaNet::Spec& spec, const GatedDeltaNet::Args& args, std::int64_t t,
                                    std::int32_t head) {
    const std::int64_t each = spec.gates_of_head();
    const float* alpha = args.alpha + t * args.gate_stride + head * each;
    std::vector<double> decays(static_cast<std::size_t>(spec.key_dim));
    for (std::size_t i = 0; i < decays.size(); ++i) {
      const std::int64_t at = spec.decays_of_keys ? static_cast<std::int64_t>(i) : 0;
      const double x = double{alpha[at]} + double{args.step_bias[head * each + at]};
      const double rate{args.rate[head]};
      decays[i] =
          std::exp(spec.decay_floor < 0.0f ? double{spec.decay_floor} * sigmoid(rate * x) : rate * std::log1p(std::exp(x)));
    }
    return decays;
  }

  static void step(const GatedDeltaNet::Spec& spec, const GatedDeltaNet::Args& args, std::int64_t t, std::int32_t head,
                   std::vector<float>& state) {
    const float* row = args.qkv + t * args.qkv_stride;
    const std::int64_t key_offset = std::int64_t{spec.key_head(head)} * spec.key_dim;
    const std::vector<double> q = unit_vector(row + key_offset, spec.key_dim);
    const std::vector<double> k = unit_vector(row + spec.keys() + key_offset, spec.key_dim);
    const float* v = row + 2 * spec.keys() + std::int64_t{head} * spec.value_dim;
    const std::vector<double> decay = decays(spec, args, t, head);
    const double share = sigmoid(double{args.beta[t * args.gate_stride + head]});
    float* out = args.out + t * args.out_stride + std::int64_t{head} * spec.value_dim;
    for (std::int32_t j = 0; j < spec.value_dim; ++j) {
      float* column = state.data() + k.size() * static_cast<std::size_t>(j);
      double recalled = 0.0;
      for (std::size_t i = 0; i < k.size(); ++i) {
        recalled += decay[i] * double{column[i]} * k[i];
      }
      double sum = 0.0;
      for (std::size_t i = 0; i < k.size(); ++i) {
        column[i] = static_cast<float>(decay[i] * double{column[i]} + share * (double{v[j]} - recalled) * k[i]);
        sum += double{column[i]} * q[i];
      }
      out[j] = static_cast<float>(sum / std::sqrt(static_cast<double>(spec.key_dim)));
    }
  }
};

}  // namespace

std::unique_ptr<OpKernel<GatedDeltaNet>> make_reference_delta_net() { return std::make_unique<ReferenceDeltaNet>(); }

}  // namespace rocmforge
