#include <algorithm>
#include <cmath>
#include <vector>

#include "base/math.h"
#include "kernels/check/arguments/arguments.h"
#include "kernels/launch/cpu/isa.h"
#include "kernels/launch/parallel.h"
#include "kernels/recurrent/cpu/slot_rows.h"
#include "kernels/recurrent/kernels.h"
#include "kernels/rows/kernels.h"

namespace rocmforge {
namespace {

/// A thread takes some columns of one value head of a sequence through all its rows: columns of a state are independent.
class CpuDeltaNet final : public CpuKernel<OpKernel<GatedDeltaNet>> {
 public:
  using CpuKernel::CpuKernel;

  [[nodiscard]] Support supports(const GatedDeltaNet::Spec& spec, const DeviceInfo& device) const override {
    const Support support = check_device(device);
    return support.ok ? check_spec(spec) : support;
  }

  void run(const GatedDeltaNet::Spec& spec, const GatedDeltaNet::Args& args, ExecutionContext& context) const override {
    check_arguments(spec, args);
    const std::int32_t each = std::min(spec.value_dim, 64);
    const std::int64_t pieces = divide_up(spec.value_dim, each);
    const std::int64_t heads = std::int64_t{args.batch.num_sequences} * spec.value_heads;
    for_each_range(context, heads * pieces, 1, [&](std::int64_t begin, std::int64_t end) {
      std::vector<float> memory((spec.decays_of_keys ? 5 : 2) * static_cast<std::size_t>(spec.key_dim));
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t head = i / pieces;
        const auto column = static_cast<std::int32_t>(i % pieces) * each;
        scan(spec, args,
             {.sequence = static_cast<std::int32_t>(head / spec.value_heads),
              .head = static_cast<std::int32_t>(head % spec.value_heads),
              .column = column,
              .columns = std::min(each, spec.value_dim - column)},
             memory.data());
      }
    });
  }

 private:
  struct Piece {
    std::int32_t sequence = 0;
    std::int32_t head = 0;
    std::int32_t column = 0;
    std::int32_t columns = 0;
  };

  /// `memory` holds two vectors of key_dim, or five with Spec::decays_of_keys.
  void scan(const GatedDeltaNet::Spec& spec, const GatedDeltaNet::Args& args, const Piece& piece, float* memory) const {
    const std::int64_t first = (std::int64_t{piece.head} * spec.value_dim + piece.column) * spec.key_dim;
    for_each_row_in_slot(args.states, args.batch, piece.sequence, first, std::int64_t{piece.columns} * spec.key_dim,
                         [&](std::int64_t t, float* state) { step(spec, args, piece, t, state, memory); });
  }

  void step(const GatedDeltaNet::Spec& spec, const GatedDeltaNet::Args& args, const Piece& piece, std::int64_t t,
            float* state, float* memory) const {
    const float* qkv = args.qkv + t * args.qkv_stride;
    const std::int64_t key = std::int64_t{spec.key_head(piece.head)} * spec.key_dim;
    const std::int64_t value = std::int64_t{piece.head} * spec.value_dim + piece.column;
    const std::int64_t each = spec.gates_of_head();
    const float* const alpha = args.alpha + t * args.gate_stride + piece.head * each;
    const float* const bias = args.step_bias + piece.head * each;
    const auto decay = [&](std::int64_t i) {
      const float x = alpha[i] + bias[i];
      const float rate = args.rate[piece.head];
      if (spec.decay_floor < 0.0f) {
        return std::exp(spec.decay_floor / (1.0f + std::exp(-rate * x)));
      }
      const float softplus = x > 20.0f ? x : std::log1p(std::exp(x));
      return std::exp(rate * softplus);
    };
    float* const decays = spec.decays_of_keys ? memory + 2 * spec.key_dim : nullptr;
    for (std::int32_t i = 0; decays != nullptr && i < spec.key_dim; ++i) {
      decays[i] = decay(i);
    }
    body().delta_net_row({.key_dim = spec.key_dim,
                          .value_dim = piece.columns,
                          .norm_eps = GatedDeltaNet::norm_eps,
                          .decay = decays != nullptr ? 1.0f : decay(0),
                          .decays = decays,
                          .share = 1.0f / (1.0f + std::exp(-args.beta[t * args.gate_stride + piece.head])),
                          .q = qkv + key,
                          .k = qkv + spec.keys() + key,
                          .v = qkv + 2 * spec.keys() + value,
                          .unit_q = memory,
                          .unit_k = memory + spec.key_dim,
                          .state = state,
                          .out = args.out + t * args.out_stride + value});
  }
};

class CpuOutputGate final : public CpuKernel<OpKernel<OutputGate>> {
 public:
  using CpuKernel::CpuKernel;

  [[nodiscard]] Support supports(const OutputGate::Spec& spec, const DeviceInfo& device) const override {
    const Support support = check_device(device);
    return support.ok ? check_spec(spec) : support;
  }

  void run(const OutputGate::Spec& spec, const OutputGate::Args& args, ExecutionContext& context) const override {
    check_arguments(spec, args);
    const std::int64_t grain = std::max<std::int64_t>(1, 16384 / spec.dim);
    for_each_range(context, args.tokens * spec.heads, grain, [&](std::int64_t begin, std::int64_t end) {
      std::vector<float> opened(is_opened(spec) ? static_cast<std::size_t>(spec.dim) : 0);
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t token = i / spec.heads;
        const std::int64_t head = i % spec.heads;
        const std::int64_t at = head * spec.dim;
        const float* gate = args.gate + token * args.gate_stride + (spec.of_heads ? head : at);
        if (is_opened(spec)) {
          open(spec, gate, opened);
          gate = opened.data();
        }
        body().output_gate_head({.dim = spec.dim,
                                 .form = form_of(spec),
                                 .eps = spec.eps,
                                 .x = args.x + token * args.x_stride + at,
                                 .gate = gate,
                                 .weight = args.weight,
                                 .out = args.out + token * spec.width() + at});
      }
    });
  }

 private:
  /// Whether the gates are computed here, once for a head or because they have a logarithm, and not in the body.
  static bool is_opened(const OutputGate::Spec& spec) { return spec.of_heads || spec.gate == OutputGate::Gate::softplus; }

  static OutputGateHead::Form form_of(const OutputGate::Spec& spec) {
    if (is_opened(spec) || spec.gate == OutputGate::Gate::plain) {
      return OutputGateHead::Form::plain;
    }
    return spec.gate == OutputGate::Gate::silu ? OutputGateHead::Form::silu : OutputGateHead::Form::sigmoid;
  }

  static float opening(OutputGate::Gate gate, float x) {
    switch (gate) {
      case OutputGate::Gate::sigmoid:
        return 1.0f / (1.0f + std::exp(-x));
      case OutputGate::Gate::silu:
        return x / (1.0f + std::exp(-x));
      case OutputGate::Gate::softplus:
        return x > 20.0f ? x : std::log1p(std::exp(x));
      case OutputGate::Gate::plain:
        return x;
    }
    fail_check("unknown gate");
  }

  /// A head's gates, as the body multiplies by them.
  static void open(const OutputGate::Spec& spec, const float* gate, std::vector<float>& opened) {
    if (spec.of_heads) {
      std::ranges::fill(opened, opening(spec.gate, *gate));
      return;
    }
    std::transform(gate, gate + spec.dim, opened.begin(), [&](float x) { return opening(spec.gate, x); });
  }
};

}  // namespace

std::unique_ptr<OpKernel<GatedDeltaNet>> make_cpu_delta_net(const CpuBodies& bodies) {
  return std::make_unique<CpuDeltaNet>(bodies);
}

std::unique_ptr<OpKernel<OutputGate>> make_cpu_output_gate(const CpuBodies& bodies) {
  return std::make_unique<CpuOutputGate>(bodies);
}

}  // namespace rocmforge
