#include <fmt/format.h>

#include <algorithm>

#include "kernels/launch/gpu_kernel.h"
#include "kernels/recurrent/kernels.h"
#include "kernels/recurrent/portable/selective_scan_args.h"

namespace rocmforge {
namespace {

constexpr std::int64_t longest_state = 32;
constexpr Kernel<gpu::SelectiveScanArgs> short_states{"selective_scan", "selective_scan_16", LaunchOrder::by_kernel};
constexpr Kernel<gpu::SelectiveScanArgs> long_states{"selective_scan", "selective_scan_32", LaunchOrder::by_kernel};

class GpuSelectiveScan final : public GpuKernel<OpKernel<SelectiveScan>> {
 public:
  using GpuKernel::GpuKernel;

  [[nodiscard]] Support supports(const SelectiveScan::Spec& spec, const DeviceInfo&) const override {
    const Support support = check_spec(spec);
    if (!support.ok) {
      return support;
    }
    constexpr std::int64_t most_channels = 1 << 20;
    if (spec.channels > most_channels) {
      return Support::no(fmt::format("{} channels, at most {} are taken", spec.channels, most_channels));
    }
    return spec.state_size <= longest_state && spec.state_size % 4 == 0
               ? Support::yes()
               : Support::no(
                     fmt::format("a state of {}, multiples of 4 up to {} are taken", spec.state_size, longest_state));
  }

  void run(const SelectiveScan::Spec& spec, const SelectiveScan::Args& args, ExecutionContext& context) const override {
    check_arguments(spec, args, device());
    const Kernel<gpu::SelectiveScanArgs>& kernel = spec.state_size <= 16 ? short_states : long_states;
    constexpr std::int64_t most_sequences = 65535;  // of one grid
    for (std::int64_t first = 0; first < args.batch.num_sequences; first += most_sequences) {
      LaunchShape shape = launch_of(divide_up(spec.channels, gpu::selective_scan_threads), gpu::selective_scan_threads);
      shape.grid[1] = static_cast<std::uint32_t>(std::min(args.batch.num_sequences - first, most_sequences));
      kernel.launch(*context.stream, shape,
                    {.x = args.x,
                     .z = args.z,
                     .dt = args.dt,
                     .b = args.b,
                     .c = args.c,
                     .a = args.a,
                     .d = args.d,
                     .out = args.out,
                     .states = args.states.data,
                     .slots = args.batch.states + first,
                     .query_offsets = args.batch.query_offsets + first,
                     .stride = args.stride,
                     .bc_stride = args.bc_stride,
                     .slot_stride = args.states.slot_stride,
                     .channels = static_cast<std::int32_t>(spec.channels),
                     .state_size = static_cast<std::int32_t>(spec.state_size)});
    }
  }
};

}  // namespace

std::unique_ptr<OpKernel<SelectiveScan>> make_gpu_selective_scan(DeviceKind kind) {
  return std::make_unique<GpuSelectiveScan>(kind);
}

}  // namespace rocmforge
