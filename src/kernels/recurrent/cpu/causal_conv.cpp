#include <algorithm>

#include "base/math.h"
#include "kernels/check/arguments/arguments.h"
#include "kernels/launch/cpu/isa.h"
#include "kernels/launch/parallel.h"
#include "kernels/recurrent/kernels.h"

namespace rocmforge {
namespace {

/// Some channels of one sequence. Row 0 is its first row of the step; negative rows are in the state that the step reads.
class ConvChannels {
 public:
  ConvChannels(const CausalConv::Spec& spec, const CausalConv::Args& args, std::int32_t sequence, std::int64_t channel,
               std::int64_t count)
      : spec_(spec),
        args_(args),
        first_(args.batch.query_offsets[sequence]),
        slots_(args.batch.states[sequence]),
        channel_(channel),
        count_(count) {}

  /// The sums of the taps and the bias.
  void convolve(std::int64_t row, float* out) const {
    std::fill_n(out, count_, 0.0f);
    for (std::int64_t tap = 0; tap < spec_.taps; ++tap) {
      add_tap(row - (spec_.taps - 1) + tap, tap, out);
    }
    if (args_.bias != nullptr) {
      std::transform(out, out + count_, args_.bias + channel_, out, [](float l, float r) { return l + r; });
    }
  }

  /// Writes the state after `rows` rows to `slot`.
  void keep(std::int64_t rows, std::int32_t slot) const {
    for (std::int64_t row = rows - (spec_.taps - 1); row < rows; ++row) {
      float* to = state(slot, row - rows);
      if (row >= 0) {
        const float* x = input(row);
        if (spec_.gates) {
          std::transform(x, x + count_, x + 2 * spec_.channels, to, [](float l, float r) { return l * r; });
        } else {
          std::copy_n(x, count_, to);
        }
      } else if (const float* kept = state(slots_.read, row); kept != nullptr) {
        std::copy_n(kept, count_, to);
      } else {
        std::fill_n(to, count_, 0.0f);
      }
    }
  }

  [[nodiscard]] const float* input(std::int64_t row) const { return args_.x + (first_ + row) * args_.x_stride + channel_; }

 private:
  /// out[channel] += weight[channel, tap] * u[channel]
  void add_tap(std::int64_t row, std::int64_t tap, float* out) const {
    const float* weight = args_.weight + channel_ * spec_.taps + tap;
    const float* x = row >= 0 ? input(row) : state(slots_.read, row);
    if (x == nullptr) {
      return;
    }
    if (row >= 0 && spec_.gates) {
      const float* by = x + 2 * spec_.channels;
      for (std::int64_t i = 0; i < count_; ++i) {
        out[i] += weight[i * spec_.taps] * (x[i] * by[i]);
      }
    } else {
      for (std::int64_t i = 0; i < count_; ++i) {
        out[i] += weight[i * spec_.taps] * x[i];
      }
    }
  }

  /// Row -1 is the newest of a state; null without a slot.
  [[nodiscard]] float* state(std::int32_t slot, std::int64_t row) const {
    if (slot < 0) {
      return nullptr;
    }
    return args_.states.floats(slot) + (spec_.taps - 1 + row) * spec_.channels + channel_;
  }

  const CausalConv::Spec& spec_;
  const CausalConv::Args& args_;
  std::int64_t first_;
  const StateSlots& slots_;
  std::int64_t channel_;
  std::int64_t count_;
};

/// A thread takes some channels of some rows, so that one decoded token too is the work of several.
class CpuCausalConv final : public CpuKernel<OpKernel<CausalConv>> {
 public:
  using CpuKernel::CpuKernel;

  [[nodiscard]] Support supports(const CausalConv::Spec& spec, const DeviceInfo& device) const override {
    const Support support = check_device(device);
    return support.ok ? check_spec(spec) : support;
  }

  void run(const CausalConv::Spec& spec, const CausalConv::Args& args, ExecutionContext& context) const override {
    check_arguments(spec, args);
    const std::int64_t each = std::min<std::int64_t>(spec.channels, 1024);
    const std::int64_t pieces = divide_up(spec.channels, each);
    const std::int64_t grain = std::max<std::int64_t>(1, 16384 / (each * spec.taps));
    for_each_range(context, args.batch.num_tokens * pieces, grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t channel = i % pieces * each;
        compute(spec, args, i / pieces, channel, std::min(each, spec.channels - channel));
      }
    });
  }

 private:
  void compute(const CausalConv::Spec& spec, const CausalConv::Args& args, std::int64_t t, std::int64_t channel,
               std::int64_t count) const {
    const std::int32_t s = args.batch.sequence_of[t];
    const StateSlots& slots = args.batch.states[s];
    const std::int64_t row = t - args.batch.query_offsets[s];
    const ConvChannels channels(spec, args, s, channel, count);
    float* out = args.out + t * spec.channels + channel;
    channels.convolve(row, out);
    if (spec.silu) {
      body().silu_gate(nullptr, out, count, out);
    }
    if (spec.gates) {
      const float* c = channels.input(row) + spec.channels;
      std::transform(out, out + count, c, out, [](float l, float r) { return l * r; });
    }
    if (slots.keep >= 0 && row + 1 == slots.keep_rows) {
      channels.keep(row + 1, slots.keep);
    }
    if (slots.write >= 0 && t + 1 == args.batch.query_offsets[s + 1]) {
      channels.keep(row + 1, slots.write);
    }
  }
};

}  // namespace

std::unique_ptr<OpKernel<CausalConv>> make_cpu_causal_conv(const CpuBodies& bodies) {
  return std::make_unique<CpuCausalConv>(bodies);
}

}  // namespace rocmforge
