// Recurrent layers as plain as they can be written: a thread goes through the rows of a sequence with one part of its state;
// sums are in double. Formulas: ops/delta_net.h, ops/ssm_scan.h, ops/causal_conv.h.

#include "kernels/check/check_code.h"
#include "kernels/check/recurrent_args.h"

namespace rocmforge::check_kernels {
namespace {

__device__ inline double sigmoid(double x) { return 1.0 / (1.0 + exp(-x)); }
__device__ inline double softplus(double x) { return x > 30.0 ? x : log1p(exp(x)); }

__device__ inline float* floats(const RecurrentSteps& steps, std::int32_t slot) {
  return reinterpret_cast<float*>(steps.states + slot * steps.slot_stride);
}

/// A thread's part of a state before and after a row.
struct State {
  const float* before;  ///< null: zeros
  float* after;         ///< may be `before`; null: nothing is kept

  [[nodiscard]] __device__ double operator[](std::int64_t i) const {
    return before != nullptr ? static_cast<double>(before[i]) : 0.0;
  }
  /// The new value of element i, as it is kept.
  __device__ double set(std::int64_t i, double value) const {
    const auto rounded = static_cast<float>(value);
    if (after != nullptr) {
      after[i] = rounded;
    }
    return static_cast<double>(rounded);
  }
};

/// step(t, state) for each row of sequence `s`. Its part of the state is `count` elements from element `first` of a slot on.
/// The slot that gets the state after the rows holds it between rows, too: it is no slot that the step reads. Only padding,
/// sequences of one row, has no such slot.
template <class Step>
__device__ __forceinline__ void for_each_row(const RecurrentSteps& steps, std::int64_t s, std::int64_t first,
                                             std::int64_t count, const Step& step) {
  const StateSlots slots = steps.slots[s];
  const auto part = [&](std::int32_t slot) { return slot >= 0 ? floats(steps, slot) + first : nullptr; };
  State state{part(slots.read), part(slots.write)};
  const std::int64_t begin = steps.query_offsets[s];
  for (std::int64_t t = begin; t < steps.query_offsets[s + 1]; ++t) {
    step(t, state);
    state.before = state.after;
    if (t - begin + 1 == slots.keep_rows && slots.keep >= 0) {
      for (std::int64_t i = 0; i < count; ++i) {
        part(slots.keep)[i] = state.after[i];
      }
    }
  }
}

/// 1 / sqrt(|x|^2 + eps)
__device__ inline double over_length(const float* x, int count, double eps) {
  double squares = eps;
  for (int i = 0; i < count; ++i) {
    squares += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  }
  return 1.0 / sqrt(squares);
}

/// One row of element `j` of a value head: S[j] is the state.
__device__ inline void delta_step(const DeltaNetCheckArgs& args, std::int64_t t, int head, int j, const State& state) {
  const auto& spec = args.spec;
  const std::int64_t keys = std::int64_t{spec.key_heads} * spec.key_dim;
  const int key_head = spec.tiled ? head % spec.key_heads : head / (spec.value_heads / spec.key_heads);
  const float* const row = args.qkv + t * args.qkv_stride;
  const float* const q = row + std::int64_t{key_head} * spec.key_dim;
  const float* const k = q + keys;
  const std::int64_t value = std::int64_t{head} * spec.value_dim + j;
  const double v = row[2 * keys + value];
  const double eps = args.norm_eps;
  const double q_scale = over_length(q, spec.key_dim, eps) / sqrt(static_cast<double>(spec.key_dim));
  const double k_scale = over_length(k, spec.key_dim, eps);
  const double share = sigmoid(args.beta[t * args.gate_stride + head]);
  const int each = spec.decays_of_keys ? spec.key_dim : 1;
  const float* const alpha = args.alpha + t * args.gate_stride + std::int64_t{head} * each;
  const float* const bias = args.step_bias + std::int64_t{head} * each;
  const auto decay_of = [&](int i) {
    const double x = static_cast<double>(alpha[i]) + static_cast<double>(bias[i]);
    const double rate = args.rate[head];
    return exp(spec.decay_floor < 0.0f ? spec.decay_floor / (1.0 + exp(-rate * x)) : rate * softplus(x));
  };
  const double common = decay_of(0);
  const auto decay = [&](int key) { return spec.decays_of_keys ? decay_of(key) : common; };
  double recalled = 0.0;
  for (int i = 0; i < spec.key_dim; ++i) {
    recalled += decay(i) * state[i] * static_cast<double>(k[i]) * k_scale;
  }
  double sum = 0.0;
  for (int i = 0; i < spec.key_dim; ++i) {
    const double added = share * (v - recalled) * static_cast<double>(k[i]) * k_scale;
    sum += state.set(i, decay(i) * state[i] + added) * static_cast<double>(q[i]) * q_scale;
  }
  args.out[t * args.out_stride + value] = static_cast<float>(sum);
}

/// One row of channel `p` of a head.
__device__ inline void scan_step(const SsmScanCheckArgs& args, std::int64_t t, std::int64_t head, std::int64_t p,
                                 const State& state) {
  const auto& spec = args.spec;
  const std::int64_t inner = spec.heads * spec.head_dim;
  const float* const row = args.x + t * (inner + 2 * spec.groups * spec.state_size);
  const float* const b = row + inner + head / (spec.heads / spec.groups) * spec.state_size;
  const float* const c = b + spec.groups * spec.state_size;
  const double step =
      softplus(static_cast<double>(args.dt[t * args.stride + head]) + static_cast<double>(args.dt_bias[head]));
  const double decay = exp(step * static_cast<double>(args.a[head]));
  const std::int64_t channel = head * spec.head_dim + p;
  const double x = row[channel];
  double sum = static_cast<double>(args.d[head]) * x;
  for (std::int64_t i = 0; i < spec.state_size; ++i) {
    sum += state.set(i, decay * state[i] + step * x * static_cast<double>(b[i])) * static_cast<double>(c[i]);
  }
  const double z = args.z[t * args.stride + channel];
  args.out[t * inner + channel] = static_cast<float>(sum * z * sigmoid(z));
}

/// One row of a channel.
__device__ inline void selective_step(const SelectiveScanCheckArgs& args, std::int64_t t, std::int64_t channel,
                                      const State& state) {
  const auto& spec = args.spec;
  const double step = softplus(static_cast<double>(args.dt[t * args.stride + channel]));
  const double x = args.x[t * spec.channels + channel];
  double sum = static_cast<double>(args.d[channel]) * x;
  for (std::int64_t i = 0; i < spec.state_size; ++i) {
    const double decay = exp(step * static_cast<double>(args.a[channel * spec.state_size + i]));
    const double added = step * x * static_cast<double>(args.b[t * args.bc_stride + i]);
    sum += state.set(i, decay * state[i] + added) * static_cast<double>(args.c[t * args.bc_stride + i]);
  }
  const double z = args.z[t * args.stride + channel];
  args.out[t * spec.channels + channel] = static_cast<float>(sum * z * sigmoid(z));
}

}  // namespace

ROCMFORGE_CHECK_KERNEL check_delta_net(DeltaNetCheckArgs args) {
  const std::int64_t values = std::int64_t{args.spec.value_heads} * args.spec.value_dim;
  for_each_element(args.steps.sequences * values, [&](std::int64_t i) {
    const std::int64_t value = i % values;
    const auto head = static_cast<int>(value / args.spec.value_dim);
    const auto j = static_cast<int>(value % args.spec.value_dim);
    for_each_row(args.steps, i / values, value * args.spec.key_dim, args.spec.key_dim,
                 [&](std::int64_t t, const State& state) { delta_step(args, t, head, j, state); });
  });
}

ROCMFORGE_CHECK_KERNEL check_ssm_scan(SsmScanCheckArgs args) {
  const std::int64_t channels = args.spec.heads * args.spec.head_dim;
  for_each_element(args.steps.sequences * channels, [&](std::int64_t i) {
    const std::int64_t channel = i % channels;
    for_each_row(args.steps, i / channels, channel * args.spec.state_size, args.spec.state_size,
                 [&](std::int64_t t, const State& state) {
                   scan_step(args, t, channel / args.spec.head_dim, channel % args.spec.head_dim, state);
                 });
  });
}

ROCMFORGE_CHECK_KERNEL check_selective_scan(SelectiveScanCheckArgs args) {
  const std::int64_t channels = args.spec.channels;
  for_each_element(args.steps.sequences * channels, [&](std::int64_t i) {
    const std::int64_t channel = i % channels;
    for_each_row(args.steps, i / channels, channel * args.spec.state_size, args.spec.state_size,
                 [&](std::int64_t t, const State& state) { selective_step(args, t, channel, state); });
  });
}

ROCMFORGE_CHECK_KERNEL check_causal_conv(CausalConvCheckArgs args) {
  const auto& spec = args.spec;
  for_each_element(args.steps.sequences * spec.channels, [&](std::int64_t index) {
    const std::int64_t s = index / spec.channels;
    const std::int64_t channel = index % spec.channels;
    const StateSlots slots = args.steps.slots[s];
    const std::int64_t begin = args.steps.query_offsets[s];
    const std::int64_t before = spec.taps - 1;
    // u of a row of the step, or with a negative number of one of the rows before it.
    const auto u = [&](std::int64_t row) -> float {
      if (row < 0) {
        return slots.read >= 0 ? floats(args.steps, slots.read)[(before + row) * spec.channels + channel] : 0.0f;
      }
      const float* const x = args.x + (begin + row) * args.x_stride + channel;
      return spec.gates ? x[0] * x[2 * spec.channels] : x[0];
    };
    const auto keep = [&](std::int32_t slot, std::int64_t rows) {
      for (std::int64_t i = 0; slot >= 0 && i < before; ++i) {
        floats(args.steps, slot)[i * spec.channels + channel] = u(rows - before + i);
      }
    };
    const std::int64_t rows = args.steps.query_offsets[s + 1] - begin;
    for (std::int64_t row = 0; row < rows; ++row) {
      double sum = args.bias != nullptr ? static_cast<double>(args.bias[channel]) : 0.0;
      for (std::int64_t tap = 0; tap < spec.taps; ++tap) {
        sum += static_cast<double>(args.weight[channel * spec.taps + tap]) * static_cast<double>(u(row - before + tap));
      }
      const double active = spec.silu ? sum * sigmoid(sum) : sum;
      const double gate =
          spec.gates ? static_cast<double>(args.x[(begin + row) * args.x_stride + spec.channels + channel]) : 1.0;
      args.out[(begin + row) * spec.channels + channel] = static_cast<float>(gate * active);
      if (row + 1 == slots.keep_rows) {
        keep(slots.keep, row + 1);
      }
    }
    keep(slots.write, rows);
  });
}

}  // namespace rocmforge::check_kernels
