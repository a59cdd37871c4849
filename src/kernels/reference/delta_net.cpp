#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/parallel.h"
#include "kernels/reference/activation.h"
#include "kernels/reference/kernels.h"

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
    for_each_range(context, std::int64_t{args.batch.num_sequences} * spec.value_heads, 1,
                   [&](std::int64_t begin, std::int64_t end) {
                     for (std::int64_t i = begin; i < end; ++i) {
                       scan(spec, args, static_cast<std::int32_t>(i / spec.value_heads),
                            static_cast<std::int32_t>(i % spec.value_heads));
                     }
                   });
  }

 private:
  /// One value head of a sequence, row after row.
  static void scan(const GatedDeltaNet::Spec& spec, const GatedDeltaNet::Args& args, std::int32_t s, std::int32_t head) {
    const StateSlots& slots = args.batch.states[s];
    const auto elems = static_cast<std::size_t>(spec.value_dim) * static_cast<std::size_t>(spec.key_dim);
    const auto in_slot = [&](std::int32_t slot) {
      return reinterpret_cast<float*>(args.states.data + slot * args.states.slot_stride) +
             static_cast<std::size_t>(head) * elems;
    };
    std::vector<float> state(elems, 0.0f);
    if (slots.read >= 0) {
      state.assign(in_slot(slots.read), in_slot(slots.read) + elems);
    }
    const auto keep = [&](std::int32_t slot) {
      if (slot >= 0) {
        std::ranges::copy(state, in_slot(slot));
      }
    };
    const std::int32_t first = args.batch.query_offsets[s];
    for (std::int32_t t = first; t < args.batch.query_offsets[s + 1]; ++t) {
      step(spec, args, t, head, state);
      if (t - first + 1 == slots.keep_rows) {
        keep(slots.keep);
      }
    }
    keep(slots.write);
  }

  static void step(const GatedDeltaNet::Spec& spec, const GatedDeltaNet::Args& args, std::int64_t t, std::int32_t head,
                   std::vector<float>& state) {
    const float* row = args.qkv + t * args.qkv_stride;
    const std::int64_t key_offset = std::int64_t{spec.key_head(head)} * spec.key_dim;
    const std::vector<double> q = unit_vector(row + key_offset, spec.key_dim);
    const std::vector<double> k = unit_vector(row + spec.keys() + key_offset, spec.key_dim);
    const float* v = row + 2 * spec.keys() + std::int64_t{head} * spec.value_dim;
    const double x = double{args.alpha[t * args.gate_stride + head]} + double{args.step_bias[head]};
    const double decay = std::exp(double{args.rate[head]} * std::log1p(std::exp(x)));
    const double share = sigmoid(double{args.beta[t * args.gate_stride + head]});
    float* out = args.out + t * args.out_stride + std::int64_t{head} * spec.value_dim;
    for (std::int32_t j = 0; j < spec.value_dim; ++j) {
      float* column = state.data() + k.size() * static_cast<std::size_t>(j);
      double recalled = 0.0;
      for (std::size_t i = 0; i < k.size(); ++i) {
        recalled += decay * double{column[i]} * k[i];
      }
      double sum = 0.0;
      for (std::size_t i = 0; i < k.size(); ++i) {
        // Rounded behind every row, as between steps: a row has the same bits however its sequence is cut into steps.
        column[i] = static_cast<float>(decay * double{column[i]} + share * (double{v[j]} - recalled) * k[i]);
        sum += double{column[i]} * q[i];
      }
      out[j] = static_cast<float>(sum / std::sqrt(static_cast<double>(spec.key_dim)));
    }
  }
};

}  // namespace

std::unique_ptr<OpKernel<GatedDeltaNet>> make_reference_delta_net() { return std::make_unique<ReferenceDeltaNet>(); }

}  // namespace rocmforge
