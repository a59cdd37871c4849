#include <algorithm>

#include "kernels/arguments.h"
#include "kernels/cpu/kernels.h"
#include "kernels/parallel.h"

namespace rocmforge {
namespace {

/// "cpu": beside the products around it, its work is too little for instruction sets of its own.
class CpuShortConv final : public OpKernel<ShortConv> {
 public:
  [[nodiscard]] std::string_view name() const override { return "cpu"; }
  [[nodiscard]] DeviceKind device() const override { return DeviceKind::cpu; }
  [[nodiscard]] KernelPriority priority() const override { return KernelPriority::portable; }
  [[nodiscard]] Support supports(const ShortConv::Spec& spec, const DeviceInfo&) const override { return check_spec(spec); }

  void run(const ShortConv::Spec& spec, const ShortConv::Args& args, ExecutionContext& context) const override {
    check_arguments(spec, args);
    const std::int64_t grain = std::max<std::int64_t>(1, 16384 / (spec.channels * spec.taps));
    for_each_range(context, args.batch.num_tokens, grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t t = begin; t < end; ++t) {
        convolve(spec, args, t);
      }
    });
  }

 private:
  /// u of row `row` of a sequence whose first row in the step is `first`; rows below 0 are those of the state it reads.
  class Inputs {
   public:
    Inputs(const ShortConv::Spec& spec, const ShortConv::Args& args, std::int32_t sequence)
        : spec_(spec), args_(args), first_(args.batch.query_offsets[sequence]), slots_(args.batch.states[sequence]) {}

    /// out[channel] += weight[channel, tap] * u[channel]
    void add_tap(std::int64_t row, std::int64_t tap, float* out) const {
      const float* weight = args_.weight + tap;
      if (row >= 0) {
        const float* b = args_.x + (first_ + row) * 3 * spec_.channels;
        const float* x = b + 2 * spec_.channels;
        for (std::int64_t channel = 0; channel < spec_.channels; ++channel) {
          out[channel] += weight[channel * spec_.taps] * (b[channel] * x[channel]);
        }
      } else if (const float* kept = state(slots_.read, row); kept != nullptr) {
        for (std::int64_t channel = 0; channel < spec_.channels; ++channel) {
          out[channel] += weight[channel * spec_.taps] * kept[channel];
        }
      }
    }

    /// Writes the state behind `rows` rows.
    void keep(std::int64_t rows, std::int32_t slot) const {
      for (std::int64_t row = rows - (spec_.taps - 1); row < rows; ++row) {
        float* to = state(slot, row - rows);
        if (row >= 0) {
          const float* b = args_.x + (first_ + row) * 3 * spec_.channels;
          std::transform(b, b + spec_.channels, b + 2 * spec_.channels, to, [](float l, float r) { return l * r; });
        } else if (const float* kept = state(slots_.read, row); kept != nullptr) {
          std::copy_n(kept, spec_.channels, to);
        } else {
          std::fill_n(to, spec_.channels, 0.0f);
        }
      }
    }

   private:
    /// Row -1 is the newest of a state; null without a slot.
    [[nodiscard]] float* state(std::int32_t slot, std::int64_t row) const {
      if (slot < 0) {
        return nullptr;
      }
      return reinterpret_cast<float*>(args_.states.data + slot * args_.states.slot_stride) +
             (spec_.taps - 1 + row) * spec_.channels;
    }

    const ShortConv::Spec& spec_;
    const ShortConv::Args& args_;
    std::int64_t first_;
    const StateSlots& slots_;
  };

  static void convolve(const ShortConv::Spec& spec, const ShortConv::Args& args, std::int64_t t) {
    const std::int32_t s = args.batch.sequence_of[t];
    const StateSlots& slots = args.batch.states[s];
    const Inputs inputs(spec, args, s);
    const std::int64_t row = t - args.batch.query_offsets[s];
    float* out = args.out + t * spec.channels;
    std::fill_n(out, spec.channels, 0.0f);
    for (std::int64_t tap = 0; tap < spec.taps; ++tap) {
      inputs.add_tap(row - (spec.taps - 1) + tap, tap, out);
    }
    const float* c = args.x + (t * 3 + 1) * spec.channels;
    std::transform(out, out + spec.channels, c, out, [](float l, float r) { return l * r; });
    if (slots.keep >= 0 && row + 1 == slots.keep_rows) {
      inputs.keep(row + 1, slots.keep);
    }
    if (slots.write >= 0 && t + 1 == args.batch.query_offsets[s + 1]) {
      inputs.keep(row + 1, slots.write);
    }
  }
};

}  // namespace

std::unique_ptr<OpKernel<ShortConv>> make_cpu_short_conv() { return std::make_unique<CpuShortConv>(); }

}  // namespace rocmforge
