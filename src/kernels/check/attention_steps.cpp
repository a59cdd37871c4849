#include "kernels/attention/portable/attention_launch.h"
#include "kernels/check/attention_steps_args.h"
#include "kernels/check/check_kernel.h"
#include "kernels/check/kernels.h"
#include "kernels/check/launch.h"

namespace rocmforge {
namespace {

using check_kernels::MaskCheckArgs;
using check_kernels::one_thread_each;
using check_kernels::QueryKeyCheckArgs;
using check_kernels::ReplicateCheckArgs;
using check_kernels::RowSoftmaxCheckArgs;
using check_kernels::ScaleCheckArgs;
using check_kernels::WeightsValueCheckArgs;

constexpr Kernel<ReplicateCheckArgs> replicate_kernel{"attention_steps_check", "check_replicate"};
constexpr Kernel<QueryKeyCheckArgs> query_key_kernel{"attention_steps_check", "check_query_key"};
constexpr Kernel<ScaleCheckArgs> scale_kernel{"attention_steps_check", "check_scale"};
constexpr Kernel<MaskCheckArgs> mask_kernel{"attention_steps_check", "check_mask"};
constexpr Kernel<RowSoftmaxCheckArgs> row_softmax_kernel{"attention_steps_check", "check_row_softmax"};
constexpr Kernel<WeightsValueCheckArgs> weights_value_kernel{"attention_steps_check", "check_weights_value"};

/// Rows `stride` elements apart, or one behind the other.
std::int64_t row_distance(std::int64_t stride, const ScoreShape& shape, std::int32_t head_dim) {
  return stride != 0 ? stride : std::int64_t{shape.heads} * head_dim;
}

class CheckReplicateKv final : public CheckKernel<OpKernel<ReplicateKv>> {
 public:
  using CheckKernel::CheckKernel;
  [[nodiscard]] Support supports(const ReplicateKv::Spec& spec, const DeviceInfo&) const override {
    if (spec.layout.k_order != KvOrder::token_major || spec.layout.v_order != KvOrder::token_major) {
      return Support::no("K and V that do not lie by token");
    }
    return check_spec(spec);
  }
  void run(const ReplicateKv::Spec& spec, const ReplicateKv::Args& args, ExecutionContext& context) const override {
    check_arguments(spec, args, device());
    const ScoreShape& shape = args.shape;
    const std::int64_t elements = std::int64_t{shape.batch} * shape.kv_len * shape.heads * spec.layout.head_dim;
    if (elements == 0 || shape.q_len == 0) {
      return;
    }
    replicate_kernel.launch(*context.stream, one_thread_each(elements),
                            {.kv = gpu::kv_address(spec.layout, args.cache, args.dense, args.block_tables, args.max_blocks),
                             .pages = gpu::uses_coded_pages(spec.layout.dtype)
                                          ? gpu::coded_pages(spec.layout, args.cache, args.block_tables, args.max_blocks)
                                          : gpu::CodedPages{},
                             .shape = shape,
                             .k_out = args.k_out,
                             .v_out = args.v_out,
                             .first_head = args.first_head,
                             .group = spec.q_heads / spec.layout.kv_heads,
                             .head_dim = spec.layout.head_dim,
                             .kv_dtype = spec.layout.dtype.k});
  }
};

class CheckQueryKey final : public AnyCheckKernel<QueryKey> {
 public:
  using AnyCheckKernel::AnyCheckKernel;
  void run(const QueryKey::Spec& spec, const QueryKey::Args& args, ExecutionContext& context) const override {
    check_arguments(spec, args, device());
    if (args.shape.count() == 0) {
      return;
    }
    query_key_kernel.launch(*context.stream, one_thread_each(args.shape.count()),
                            {.q = args.q,
                             .k = args.k,
                             .scores = args.scores,
                             .shape = args.shape,
                             .q_stride = row_distance(args.q_stride, args.shape, spec.head_dim),
                             .scale = double{args.scale},
                             .head_dim = spec.head_dim,
                             .q_dtype = spec.q_dtype});
  }
};

class CheckScale final : public AnyCheckKernel<Scale> {
 public:
  using AnyCheckKernel::AnyCheckKernel;
  void run(const Scale::Spec& spec, const Scale::Args& args, ExecutionContext& context) const override {
    check_arguments(spec, args);
    if (args.count > 0) {
      scale_kernel.launch(*context.stream, one_thread_each(args.count),
                          {.x = args.x,
                           .count = args.count,
                           .factor = double{args.factor},
                           .soft_cap = double{args.soft_cap},
                           .width = args.width,
                           .weights = args.weights,
                           .least = args.least,
                           .most = args.most});
    }
  }
};

class CheckCausalMask final : public AnyCheckKernel<CausalMask> {
 public:
  using AnyCheckKernel::AnyCheckKernel;
  void run(const CausalMask::Spec& spec, const CausalMask::Args& args, ExecutionContext& context) const override {
    check_arguments(spec, args, device());
    if (args.shape.count() > 0) {
      mask_kernel.launch(*context.stream, one_thread_each(args.shape.count()),
                         {.scores = args.scores,
                          .mask = args.mask,
                          .shape = args.shape,
                          .mask_stride = args.mask_stride,
                          .window = args.window,
                          .causal = args.causal ? 1 : 0});
    }
  }
};

class CheckRowSoftmax final : public AnyCheckKernel<RowSoftmax> {
 public:
  using AnyCheckKernel::AnyCheckKernel;
  void run(const RowSoftmax::Spec& spec, const RowSoftmax::Args& args, ExecutionContext& context) const override {
    check_arguments(spec, args, device());
    if (args.shape.count() > 0) {
      row_softmax_kernel.launch(*context.stream, one_thread_each(args.shape.rows()),
                                {.scores = args.scores, .sinks = args.sinks, .shape = args.shape});
    }
  }
};

class CheckWeightsValue final : public AnyCheckKernel<WeightsValue> {
 public:
  using AnyCheckKernel::AnyCheckKernel;
  void run(const WeightsValue::Spec& spec, const WeightsValue::Args& args, ExecutionContext& context) const override {
    check_arguments(spec, args, device());
    if (args.shape.rows() == 0) {
      return;
    }
    weights_value_kernel.launch(*context.stream, one_thread_each(args.shape.rows() * spec.head_dim),
                                {.weights = args.weights,
                                 .v = args.v,
                                 .out = args.out,
                                 .shape = args.shape,
                                 .out_stride = row_distance(args.out_stride, args.shape, spec.head_dim),
                                 .head_dim = spec.head_dim,
                                 .out_dtype = spec.out_dtype});
  }
};

}  // namespace

std::unique_ptr<OpKernel<ReplicateKv>> make_check_replicate_kv(DeviceKind kind) {
  return std::make_unique<CheckReplicateKv>(kind);
}
std::unique_ptr<OpKernel<QueryKey>> make_check_query_key(DeviceKind kind) { return std::make_unique<CheckQueryKey>(kind); }
std::unique_ptr<OpKernel<Scale>> make_check_scale(DeviceKind kind) { return std::make_unique<CheckScale>(kind); }
std::unique_ptr<OpKernel<CausalMask>> make_check_causal_mask(DeviceKind kind) {
  return std::make_unique<CheckCausalMask>(kind);
}
std::unique_ptr<OpKernel<RowSoftmax>> make_check_row_softmax(DeviceKind kind) {
  return std::make_unique<CheckRowSoftmax>(kind);
}
std::unique_ptr<OpKernel<WeightsValue>> make_check_weights_value(DeviceKind kind) {
  return std::make_unique<CheckWeightsValue>(kind);
}

}  // namespace rocmforge
