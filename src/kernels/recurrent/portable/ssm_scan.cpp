#include <fmt/format.h>

#include <algorithm>

#include "kernels/launch/gpu_kernel.h"
#include "kernels/recurrent/kernels.h"
#include "kernels/recurrent/portable/chunk_launch.h"
#include "kernels/recurrent/portable/ssm_scan_args.h"

namespace rocmforge {
namespace {

/// Kernels for states of up to `size` elements a row.
struct SizedSsmScan {
  std::int64_t size;
  std::int64_t group_rows;
  Kernel<gpu::SsmScanArgs> kernel;
};

template <int size>
constexpr SizedSsmScan sized_ssm_scan(std::string_view name) {
  return {size, gpu::ssm_scan_group_rows(size), {"ssm_scan", name, LaunchOrder::by_kernel}};
}

constexpr SizedSsmScan ssm_scans[] = {sized_ssm_scan<32>("ssm_scan_32"), sized_ssm_scan<64>("ssm_scan_64"),
                                      sized_ssm_scan<128>("ssm_scan_128"), sized_ssm_scan<256>("ssm_scan_256")};

const SizedSsmScan* find_ssm_scan(std::int64_t state_size) {
  for (const SizedSsmScan& scan : ssm_scans) {
    if (state_size <= scan.size) {
      return &scan;
    }
  }
  return nullptr;
}

class GpuSsmScan final : public GpuKernel<OpKernel<SsmScan>> {
 public:
  using GpuKernel::GpuKernel;

  [[nodiscard]] Support supports(const SsmScan::Spec& spec, const DeviceInfo&) const override {
    const Support support = check_spec(spec);
    if (!support.ok) {
      return support;
    }
    if (find_ssm_scan(spec.state_size) == nullptr || spec.state_size % 4 != 0) {
      return Support::no(fmt::format("a state of {}, multiples of 4 up to 256 are taken", spec.state_size));
    }
    constexpr std::int64_t most_rows = 1 << 20;  // of all heads: the limit of work-groups of a launch
    return spec.inner() <= most_rows ? Support::yes()
                                     : Support::no(fmt::format("{} heads of {}", spec.heads, spec.head_dim));
  }

  [[nodiscard]] std::size_t workspace_bytes(const SsmScan::Spec& spec, std::int64_t tokens) const override {
    return chunk_workspace_bytes(spec.groups, spec.heads, spec.state_size, tokens);
  }

  void run(const SsmScan::Spec& spec, const SsmScan::Args& args, ExecutionContext& context) const override {
    check_arguments(spec, args, device());
    if (args.batch.num_sequences == 0) {
      return;
    }
    if (scan_chunks(chunk_args(spec, args), args.batch, args.workspace, *context.stream)) {
      scan_rows(spec, args, *context.stream);
    }
  }

 private:
  static gpu::ChunkArgs chunk_args(const SsmScan::Spec& spec, const SsmScan::Args& args) {
    const float* keys = args.x + spec.inner();
    return {.queries = keys + spec.groups * spec.state_size,
            .keys = keys,
            .values = args.x,
            .beta = nullptr,
            .gate = args.dt,
            .rate = args.a,
            .gate_bias = args.dt_bias,
            .skip = args.d,
            .open = args.z,
            .out = args.out,
            .states = args.states.data,
            .row_stride = spec.input_width(),
            .gate_stride = args.stride,
            .out_stride = spec.inner(),
            .slot_stride = args.states.slot_stride,
            .key_heads = static_cast<std::int32_t>(spec.groups),
            .value_heads = static_cast<std::int32_t>(spec.heads),
            .key_dim = static_cast<std::int32_t>(spec.state_size),
            .value_dim = static_cast<std::int32_t>(spec.head_dim),
            .eps = 0.0f,
            .tiled = false};
  }

  /// Sequences with few rows.
  static void scan_rows(const SsmScan::Spec& spec, const SsmScan::Args& args, Stream& stream) {
    const SizedSsmScan& scan = *find_ssm_scan(spec.state_size);
    const std::int64_t runs = divide_up(spec.head_dim, scan.group_rows);
    constexpr std::int64_t most_sequences = 65535;  // of one grid
    for (std::int64_t first = 0; first < args.batch.num_sequences; first += most_sequences) {
      LaunchShape shape = launch_of(spec.heads * runs, gpu::ssm_scan_threads);
      shape.grid[1] = static_cast<std::uint32_t>(std::min(args.batch.num_sequences - first, most_sequences));
      scan.kernel.launch(stream, shape,
                         {.x = args.x,
                          .z = args.z,
                          .dt = args.dt,
                          .a = args.a,
                          .d = args.d,
                          .dt_bias = args.dt_bias,
                          .out = args.out,
                          .states = args.states.data,
                          .slots = args.batch.states + first,
                          .query_offsets = args.batch.query_offsets + first,
                          .x_stride = spec.input_width(),
                          .stride = args.stride,
                          .slot_stride = args.states.slot_stride,
                          .heads = static_cast<std::int32_t>(spec.heads),
                          .head_dim = static_cast<std::int32_t>(spec.head_dim),
                          .state_size = static_cast<std::int32_t>(spec.state_size),
                          .groups = static_cast<std::int32_t>(spec.groups),
                          .runs = static_cast<std::int32_t>(runs)});
    }
  }
};

}  // namespace

std::unique_ptr<OpKernel<SsmScan>> make_gpu_ssm_scan(DeviceKind kind) { return std::make_unique<GpuSsmScan>(kind); }

}  // namespace rocmforge
