#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "base/math.h"
#include "kernels/check/arguments/arguments.h"
#include "kernels/launch/cpu/isa.h"
#include "kernels/launch/parallel.h"
#include "kernels/recurrent/cpu/slot_rows.h"
#include "kernels/recurrent/kernels.h"

namespace rocmforge {
namespace {

/// A thread takes some channels of a sequence through all its rows.
class CpuSelectiveScan final : public CpuKernel<OpKernel<SelectiveScan>> {
 public:
  using CpuKernel::CpuKernel;

  [[nodiscard]] Support supports(const SelectiveScan::Spec& spec, const DeviceInfo& device) const override {
    const Support support = check_device(device);
    return support.ok ? check_spec(spec) : support;
  }

  void run(const SelectiveScan::Spec& spec, const SelectiveScan::Args& args, ExecutionContext& context) const override {
    check_arguments(spec, args);
    const std::int64_t pieces = divide_up(spec.channels, most_channels);
    for_each_head(context, args.batch.num_sequences, pieces, [&](std::int64_t s, std::int64_t piece) {
      const std::int64_t first = piece * most_channels;
      const std::int64_t channels = std::min(most_channels, spec.channels - first);
      for_each_row_in_slot(args.states, args.batch, s, first * spec.state_size, channels * spec.state_size,
                           [&](std::int64_t t, float* state) { advance(spec, args, t, first, channels, state); });
    });
  }

 private:
  static constexpr std::int64_t most_channels = 64;  // of a piece: their states stay in the first-level cache

  /// One row of `channels` channels from `first` on.
  void advance(const SelectiveScan::Spec& spec, const SelectiveScan::Args& args, std::int64_t t, std::int64_t first,
               std::int64_t channels, float* state) const {
    std::array<float, most_channels> steps;
    for (std::int64_t i = 0; i < channels; ++i) {
      const float raw = args.dt[t * args.stride + first + i];
      steps[static_cast<std::size_t>(i)] = raw > 20.0f ? raw : std::log1p(std::exp(raw));
    }
    float* out = args.out + t * spec.channels + first;
    body().selective_scan_row({.state = state,
                               .x = args.x + t * spec.channels + first,
                               .step = steps.data(),
                               .a = args.a + first * spec.state_size,
                               .b = args.b + t * args.bc_stride,
                               .c = args.c + t * args.bc_stride,
                               .skip = args.d + first,
                               .out = out,
                               .channels = static_cast<std::int32_t>(channels),
                               .state_size = static_cast<std::int32_t>(spec.state_size)});
    body().silu_gate(args.z + t * args.stride + first, out, channels, out);
  }
};

}  // namespace

std::unique_ptr<OpKernel<SelectiveScan>> make_cpu_selective_scan(const CpuBodies& bodies) {
  return std::make_unique<CpuSelectiveScan>(bodies);
}

}  // namespace rocmforge
