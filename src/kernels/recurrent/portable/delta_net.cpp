#include <fmt/format.h>

#include "kernels/launch/gpu_kernel.h"
#include "kernels/recurrent/kernels.h"
#include "kernels/recurrent/portable/chunk_launch.h"
#include "kernels/recurrent/portable/delta_net_args.h"
#include "kernels/rows/kernels.h"

namespace rocmforge {
namespace {

constexpr Kernel<gpu::DeltaNetArgs> delta_net_kernel{"delta_net", "gated_delta_net", LaunchOrder::by_kernel};
/// With a decay for each element of a key. All sequences are scanned row by row.
constexpr Kernel<gpu::DeltaNetArgs> key_decays_kernel{"delta_net", "delta_net_key_decays", LaunchOrder::by_kernel};
constexpr Kernel<gpu::OutputGateArgs> output_gate_kernel{"delta_net", "output_gate", LaunchOrder::by_kernel};

class GpuDeltaNet final : public GpuKernel<OpKernel<GatedDeltaNet>> {
 public:
  using GpuKernel::GpuKernel;

  [[nodiscard]] Support supports(const GatedDeltaNet::Spec& spec, const DeviceInfo&) const override {
    if (spec.key_dim > gpu::delta_net_key_dim || spec.key_dim % 4 != 0) {
      return Support::no(
          fmt::format("key heads of {}, it takes multiples of 4 up to {}", spec.key_dim, gpu::delta_net_key_dim));
    }
    return check_spec(spec);
  }

  [[nodiscard]] std::size_t workspace_bytes(const GatedDeltaNet::Spec& spec, std::int64_t tokens) const override {
    return spec.decays_of_keys ? 0 : chunk_workspace_bytes(spec.key_heads, spec.value_heads, spec.key_dim, tokens);
  }

  void run(const GatedDeltaNet::Spec& spec, const GatedDeltaNet::Args& args, ExecutionContext& context) const override {
    check_arguments(spec, args, device());
    if (args.batch.num_sequences == 0) {
      return;
    }
    if (spec.decays_of_keys) {
      scan_rows(spec, args, key_decays_kernel, *context.stream);
    } else if (scan_chunks(chunk_args(spec, args), args.batch, args.workspace, *context.stream)) {
      scan_rows(spec, args, delta_net_kernel, *context.stream);
    }
  }

 private:
  static gpu::ChunkArgs chunk_args(const GatedDeltaNet::Spec& spec, const GatedDeltaNet::Args& args) {
    return {.queries = args.qkv,
            .keys = args.qkv + spec.keys(),
            .values = args.qkv + 2 * spec.keys(),
            .beta = args.beta,
            .gate = args.alpha,
            .rate = args.rate,
            .gate_bias = args.step_bias,
            .skip = nullptr,
            .open = nullptr,
            .out = args.out,
            .states = args.states.data,
            .row_stride = args.qkv_stride,
            .gate_stride = args.gate_stride,
            .out_stride = args.out_stride,
            .slot_stride = args.states.slot_stride,
            .key_heads = spec.key_heads,
            .value_heads = spec.value_heads,
            .key_dim = spec.key_dim,
            .value_dim = spec.value_dim,
            .eps = GatedDeltaNet::norm_eps,
            .tiled = spec.tiled};
  }

  static void scan_rows(const GatedDeltaNet::Spec& spec, const GatedDeltaNet::Args& args,
                        const Kernel<gpu::DeltaNetArgs>& kernel, Stream& stream) {
    const std::int64_t pieces = divide_up(spec.value_dim, gpu::delta_net_columns) * spec.value_heads;
    kernel.launch(stream, launch_of(pieces, args.batch.num_sequences, gpu::delta_net_threads),
                  {.qkv = args.qkv,
                   .beta = args.beta,
                   .alpha = args.alpha,
                   .rate = args.rate,
                   .step_bias = args.step_bias,
                   .out = args.out,
                   .states = args.states.data,
                   .slots = args.batch.states,
                   .query_offsets = args.batch.query_offsets,
                   .qkv_stride = args.qkv_stride,
                   .gate_stride = args.gate_stride,
                   .out_stride = args.out_stride,
                   .slot_stride = args.states.slot_stride,
                   .sequences = args.batch.num_sequences,
                   .key_heads = spec.key_heads,
                   .value_heads = spec.value_heads,
                   .key_dim = spec.key_dim,
                   .value_dim = spec.value_dim,
                   .decay_floor = spec.decay_floor,
                   .tiled = spec.tiled});
  }
};

class GpuOutputGate final : public PortableGpuKernel<OutputGate> {
 public:
  using PortableGpuKernel::PortableGpuKernel;

  void run(const OutputGate::Spec& spec, const OutputGate::Args& args, ExecutionContext& context) const override {
    check_arguments(spec, args);
    if (args.tokens == 0) {
      return;
    }
    constexpr std::uint32_t threads = 128;
    const std::int64_t groups = divide_up(spec.heads, threads / gpu::output_gate_lanes);
    output_gate_kernel.launch(*context.stream, launch_of(groups, args.tokens, threads),
                              {.x = args.x,
                               .gate = args.gate,
                               .weight = args.weight,
                               .out = args.out,
                               .tokens = args.tokens,
                               .x_stride = args.x_stride,
                               .gate_stride = args.gate_stride,
                               .heads = spec.heads,
                               .dim = spec.dim,
                               .eps = spec.eps,
                               .form = spec.gate,
                               .of_heads = spec.of_heads});
  }
};

}  // namespace

std::unique_ptr<OpKernel<GatedDeltaNet>> make_gpu_delta_net(DeviceKind kind) { return std::make_unique<GpuDeltaNet>(kind); }

std::unique_ptr<OpKernel<OutputGate>> make_gpu_output_gate(DeviceKind kind) { return std::make_unique<GpuOutputGate>(kind); }

}  // namespace rocmforge
