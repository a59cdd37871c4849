#include "kernels/check/check_kernel.h"
#include "kernels/check/kernels.h"
#include "kernels/check/launch.h"
#include "kernels/check/recurrent_args.h"

namespace rocmforge {
namespace {

using check_kernels::CausalConvCheckArgs;
using check_kernels::DeltaNetCheckArgs;
using check_kernels::one_thread_each;
using check_kernels::RecurrentSteps;
using check_kernels::SelectiveScanCheckArgs;
using check_kernels::SsmScanCheckArgs;

constexpr Kernel<DeltaNetCheckArgs> delta_net_kernel{"recurrent_check", "check_delta_net"};
constexpr Kernel<SsmScanCheckArgs> ssm_scan_kernel{"recurrent_check", "check_ssm_scan"};
constexpr Kernel<SelectiveScanCheckArgs> selective_scan_kernel{"recurrent_check", "check_selective_scan"};
constexpr Kernel<CausalConvCheckArgs> causal_conv_kernel{"recurrent_check", "check_causal_conv"};

RecurrentSteps steps_of(const StateView& states, const RaggedBatch& batch) {
  return {.states = states.data,
          .slots = batch.states,
          .query_offsets = batch.query_offsets,
          .slot_stride = states.slot_stride,
          .sequences = batch.num_sequences};
}

class CheckDeltaNet final : public AnyCheckKernel<GatedDeltaNet> {
 public:
  using AnyCheckKernel::AnyCheckKernel;
  void run(const GatedDeltaNet::Spec& spec, const GatedDeltaNet::Args& args, ExecutionContext& context) const override {
    check_arguments(spec, args, device());
    if (args.batch.num_sequences == 0) {
      return;
    }
    delta_net_kernel.launch(*context.stream, one_thread_each(args.batch.num_sequences * spec.values()),
                            {.steps = steps_of(args.states, args.batch),
                             .qkv = args.qkv,
                             .beta = args.beta,
                             .alpha = args.alpha,
                             .rate = args.rate,
                             .step_bias = args.step_bias,
                             .out = args.out,
                             .qkv_stride = args.qkv_stride,
                             .gate_stride = args.gate_stride,
                             .out_stride = args.out_stride,
                             .spec = spec,
                             .norm_eps = GatedDeltaNet::norm_eps});
  }
};

class CheckSsmScan final : public AnyCheckKernel<SsmScan> {
 public:
  using AnyCheckKernel::AnyCheckKernel;
  void run(const SsmScan::Spec& spec, const SsmScan::Args& args, ExecutionContext& context) const override {
    check_arguments(spec, args, device());
    if (args.batch.num_sequences == 0) {
      return;
    }
    ssm_scan_kernel.launch(*context.stream, one_thread_each(args.batch.num_sequences * spec.inner()),
                           {.steps = steps_of(args.states, args.batch),
                            .x = args.x,
                            .z = args.z,
                            .dt = args.dt,
                            .a = args.a,
                            .d = args.d,
                            .dt_bias = args.dt_bias,
                            .out = args.out,
                            .stride = args.stride,
                            .spec = spec});
  }
};

class CheckSelectiveScan final : public AnyCheckKernel<SelectiveScan> {
 public:
  using AnyCheckKernel::AnyCheckKernel;
  void run(const SelectiveScan::Spec& spec, const SelectiveScan::Args& args, ExecutionContext& context) const override {
    check_arguments(spec, args, device());
    if (args.batch.num_sequences == 0) {
      return;
    }
    selective_scan_kernel.launch(*context.stream, one_thread_each(args.batch.num_sequences * spec.channels),
                                 {.steps = steps_of(args.states, args.batch),
                                  .x = args.x,
                                  .z = args.z,
                                  .dt = args.dt,
                                  .b = args.b,
                                  .c = args.c,
                                  .a = args.a,
                                  .d = args.d,
                                  .out = args.out,
                                  .stride = args.stride,
                                  .bc_stride = args.bc_stride,
                                  .spec = spec});
  }
};

class CheckCausalConv final : public AnyCheckKernel<CausalConv> {
 public:
  using AnyCheckKernel::AnyCheckKernel;
  void run(const CausalConv::Spec& spec, const CausalConv::Args& args, ExecutionContext& context) const override {
    check_arguments(spec, args, device());
    if (args.batch.num_sequences == 0) {
      return;
    }
    causal_conv_kernel.launch(*context.stream, one_thread_each(args.batch.num_sequences * spec.channels),
                              {.steps = steps_of(args.states, args.batch),
                               .x = args.x,
                               .weight = args.weight,
                               .bias = args.bias,
                               .out = args.out,
                               .x_stride = args.x_stride,
                               .spec = spec});
  }
};

}  // namespace

std::unique_ptr<OpKernel<GatedDeltaNet>> make_check_delta_net(DeviceKind kind) {
  return std::make_unique<CheckDeltaNet>(kind);
}
std::unique_ptr<OpKernel<SsmScan>> make_check_ssm_scan(DeviceKind kind) { return std::make_unique<CheckSsmScan>(kind); }
std::unique_ptr<OpKernel<SelectiveScan>> make_check_selective_scan(DeviceKind kind) {
  return std::make_unique<CheckSelectiveScan>(kind);
}
std::unique_ptr<OpKernel<CausalConv>> make_check_causal_conv(DeviceKind kind) {
  return std::make_unique<CheckCausalConv>(kind);
}

}  // namespace rocmforge
