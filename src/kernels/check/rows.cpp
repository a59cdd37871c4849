#include "kernels/check/check_kernel.h"
#include "kernels/check/kernels.h"
#include "kernels/check/launch.h"
#include "kernels/check/rows_args.h"

namespace rocmforge {
namespace {

using check_kernels::ActivationCheckArgs;
using check_kernels::CopyHeadsCheckArgs;
using check_kernels::GatherCheckArgs;
using check_kernels::NormCheckArgs;
using check_kernels::one_thread_each;
using check_kernels::OutputGateCheckArgs;
using check_kernels::OverwriteCheckArgs;
using check_kernels::ResidualCheckArgs;

constexpr Kernel<NormCheckArgs> norm_kernel{"rows_check", "check_norm"};
constexpr Kernel<ActivationCheckArgs> activation_kernel{"rows_check", "check_activation"};
constexpr Kernel<ResidualCheckArgs> residual_kernel{"rows_check", "check_residual"};
constexpr Kernel<OutputGateCheckArgs> output_gate_kernel{"rows_check", "check_output_gate"};
constexpr Kernel<GatherCheckArgs> gather_kernel{"rows_check", "check_gather"};
constexpr Kernel<OverwriteCheckArgs> overwrite_kernel{"rows_check", "check_overwrite"};
constexpr Kernel<CopyHeadsCheckArgs> copy_heads_kernel{"rows_check", "check_copy_heads"};

class CheckRmsNorm final : public AnyCheckKernel<RmsNorm> {
 public:
  using AnyCheckKernel::AnyCheckKernel;
  void run(const RmsNorm::Spec& spec, const RmsNorm::Args& args, ExecutionContext& context) const override {
    check_arguments(spec, args);
    const std::int64_t stride = args.stride != 0 ? args.stride : spec.dim;
    norm_kernel.launch(*context.stream, one_thread_each(args.rows),
                       {.x = args.x,
                        .weight = args.weight,
                        .bias = nullptr,
                        .residual = args.residual,
                        .out = args.out,
                        .rows = args.rows,
                        .dim = spec.dim,
                        .groups = spec.groups,
                        .stride = stride * spec.groups,
                        .group_stride = stride,
                        .eps = double{spec.eps},
                        .factor = double{args.factor},
                        .scale = double{args.scale},
                        .centred = 0,
                        .unused = 0});
  }
};

class CheckLayerNorm final : public AnyCheckKernel<LayerNorm> {
 public:
  using AnyCheckKernel::AnyCheckKernel;
  void run(const LayerNorm::Spec& spec, const LayerNorm::Args& args, ExecutionContext& context) const override {
    check_arguments(spec, args);
    norm_kernel.launch(*context.stream, one_thread_each(args.rows * spec.groups),
                       {.x = args.x,
                        .weight = args.weight,
                        .bias = spec.bias ? args.bias : nullptr,
                        .residual = nullptr,
                        .out = args.out,
                        .rows = args.rows * spec.groups,
                        .dim = spec.dim,
                        .groups = spec.groups,
                        .stride = row_stride(spec, args),
                        .group_stride = spec.dim,
                        .eps = double{spec.eps},
                        .factor = 1.0,
                        .scale = 1.0,
                        .centred = 1,
                        .unused = 0});
  }
};

class CheckGatedActivation final : public AnyCheckKernel<GatedActivation> {
 public:
  using AnyCheckKernel::AnyCheckKernel;
  void run(const GatedActivation::Spec& spec, const GatedActivation::Args& args, ExecutionContext& context) const override {
    check_arguments(spec, args);
    activation_kernel.launch(*context.stream, one_thread_each(args.tokens * spec.width),
                             {.gate = spec.gated ? args.gate : nullptr,
                              .up = args.up,
                              .out = args.out,
                              .tokens = args.tokens,
                              .width = spec.width,
                              .stride = args.stride,
                              .up_stride = args.up_stride != 0 ? args.up_stride : args.stride,
                              .activation = spec.activation,
                              .unused = 0});
  }
};

class CheckResidualAdd final : public AnyCheckKernel<ResidualAdd> {
 public:
  using AnyCheckKernel::AnyCheckKernel;
  void run(const ResidualAdd::Spec& spec, const ResidualAdd::Args& args, ExecutionContext& context) const override {
    check_arguments(spec, args);
    residual_kernel.launch(*context.stream, one_thread_each(args.count),
                           {.a = args.a,
                            .b = args.b,
                            .out = args.out,
                            .count = args.count,
                            .factor = double{args.factor},
                            .scale = double{args.scale}});
  }
};

class CheckOutputGate final : public AnyCheckKernel<OutputGate> {
 public:
  using AnyCheckKernel::AnyCheckKernel;
  void run(const OutputGate::Spec& spec, const OutputGate::Args& args, ExecutionContext& context) const override {
    check_arguments(spec, args);
    output_gate_kernel.launch(*context.stream, one_thread_each(args.tokens * spec.heads),
                              {.x = args.x,
                               .gate = args.gate,
                               .weight = spec.norm ? args.weight : nullptr,
                               .out = args.out,
                               .tokens = args.tokens,
                               .x_stride = args.x_stride,
                               .gate_stride = args.gate_stride,
                               .heads = spec.heads,
                               .dim = spec.dim,
                               .eps = double{spec.eps},
                               .form = spec.gate,
                               .of_heads = spec.of_heads ? 1 : 0});
  }
};

class CheckGatherRows final : public AnyCheckKernel<GatherRows> {
 public:
  using AnyCheckKernel::AnyCheckKernel;
  void run(const GatherRows::Spec& spec, const GatherRows::Args& args, ExecutionContext& context) const override {
    check_arguments(spec, args, device());
    gather_kernel.launch(*context.stream, one_thread_each(args.count * spec.dim),
                         {.x = args.x, .ids = args.ids, .out = args.out, .count = args.count, .dim = spec.dim});
  }
};

class CheckOverwriteRows final : public AnyCheckKernel<OverwriteRows> {
 public:
  using AnyCheckKernel::AnyCheckKernel;
  void run(const OverwriteRows::Spec& spec, const OverwriteRows::Args& args, ExecutionContext& context) const override {
    check_arguments(spec, args, device());
    overwrite_kernel.launch(*context.stream, one_thread_each(args.count * spec.dim),
                            {.x = args.x,
                             .from = args.from,
                             .ids = args.ids,
                             .out = args.out,
                             .x_stride = args.x_stride,
                             .count = args.count,
                             .dim = spec.dim,
                             .add = args.add ? 1 : 0});
  }
};

class CheckCopyHeads final : public AnyCheckKernel<CopyHeads> {
 public:
  using AnyCheckKernel::AnyCheckKernel;
  void run(const CopyHeads::Spec& spec, const CopyHeads::Args& args, ExecutionContext& context) const override {
    check_arguments(spec, args);
    copy_heads_kernel.launch(*context.stream, one_thread_each(args.tokens * args.heads * spec.out_dim),
                             {.x = args.x,
                              .out = args.out,
                              .first_token = args.first_token,
                              .tokens = args.tokens,
                              .heads = args.heads,
                              .dim = spec.dim,
                              .out_heads = args.out_heads,
                              .out_dim = spec.out_dim,
                              .first_head = args.first_head,
                              .unused = 0});
  }
};

}  // namespace

std::unique_ptr<OpKernel<RmsNorm>> make_check_rms_norm(DeviceKind kind) { return std::make_unique<CheckRmsNorm>(kind); }
std::unique_ptr<OpKernel<LayerNorm>> make_check_layer_norm(DeviceKind kind) {
  return std::make_unique<CheckLayerNorm>(kind);
}
std::unique_ptr<OpKernel<GatedActivation>> make_check_gated_activation(DeviceKind kind) {
  return std::make_unique<CheckGatedActivation>(kind);
}
std::unique_ptr<OpKernel<ResidualAdd>> make_check_residual_add(DeviceKind kind) {
  return std::make_unique<CheckResidualAdd>(kind);
}
std::unique_ptr<OpKernel<OutputGate>> make_check_output_gate(DeviceKind kind) {
  return std::make_unique<CheckOutputGate>(kind);
}
std::unique_ptr<OpKernel<GatherRows>> make_check_gather_rows(DeviceKind kind) {
  return std::make_unique<CheckGatherRows>(kind);
}
std::unique_ptr<OpKernel<OverwriteRows>> make_check_overwrite_rows(DeviceKind kind) {
  return std::make_unique<CheckOverwriteRows>(kind);
}
std::unique_ptr<OpKernel<CopyHeads>> make_check_copy_heads(DeviceKind kind) {
  return std::make_unique<CheckCopyHeads>(kind);
}

}  // namespace rocmforge
