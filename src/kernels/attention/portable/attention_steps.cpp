#include "kernels/attention/kernels.h"
#include "kernels/attention/portable/attention_launch.h"
#include "kernels/attention/portable/attention_steps_args.h"
#include "kernels/launch/gpu_kernel.h"

namespace rocmforge {
namespace {

using ReplicateKvKernel = Kernel<gpu::ReplicateKvArgs>;
constexpr ReplicateKvKernel replicate_kv_f32{"attention_steps", "replicate_kv_f32"};
constexpr ReplicateKvKernel replicate_kv_f16{"attention_steps", "replicate_kv_f16"};
constexpr ReplicateKvKernel replicate_kv_bf16{"attention_steps", "replicate_kv_bf16"};
constexpr ReplicateKvKernel replicate_kv_q8_0{"attention_steps", "replicate_kv_q8_0"};
constexpr ReplicateKvKernel replicate_kv_coded{"attention_steps", "replicate_kv_coded"};
constexpr Kernel<gpu::QueryKeyArgs> query_key_kernel{"attention_steps", "query_key"};
constexpr Kernel<gpu::ScaleArgs> scale_kernel{"attention_steps", "scale"};
constexpr Kernel<gpu::CausalMaskArgs> causal_mask_kernel{"attention_steps", "causal_mask"};
constexpr Kernel<gpu::RowSoftmaxArgs> row_softmax_kernel{"attention_steps", "row_softmax"};
constexpr Kernel<gpu::WeightsValueArgs> weights_value_kernel{"attention_steps", "weights_value"};

constexpr std::uint32_t threads = 256;
constexpr std::int64_t tile = 64;  ///< rows and columns of results of a work-group

/// For `matrices` products of [rows, cols].
LaunchShape tile_launch(std::int64_t matrices, std::int64_t rows, std::int64_t cols) {
  return launch_of(matrices * divide_up(rows, tile) * divide_up(cols, tile), threads);
}

class GpuReplicateKv final : public GpuKernel<OpKernel<ReplicateKv>> {
 public:
  using GpuKernel::GpuKernel;

  [[nodiscard]] Support supports(const ReplicateKv::Spec& spec, const DeviceInfo&) const override {
    if (spec.layout.k_order != KvOrder::token_major || spec.layout.v_order != KvOrder::token_major) {
      return Support::no("it reads K and V by token");
    }
    return check_spec(spec);
  }

  void run(const ReplicateKv::Spec& spec, const ReplicateKv::Args& args, ExecutionContext& context) const override {
    check_arguments(spec, args, device());
    const ScoreShape& shape = args.shape;
    const std::int64_t heads = std::int64_t{shape.batch} * shape.kv_len * shape.heads;
    if (heads == 0 || shape.q_len == 0) {
      return;
    }
    constexpr std::int64_t heads_per_group = 8;  // a wave of 32 lanes for each
    const KvTypes& dtype = spec.layout.dtype;
    const ReplicateKvKernel& kernel = gpu::uses_coded_pages(dtype) ? replicate_kv_coded
                                      : dtype == DType::f16        ? replicate_kv_f16
                                      : dtype == DType::bf16       ? replicate_kv_bf16
                                      : dtype == DType::q8_0       ? replicate_kv_q8_0
                                                                   : replicate_kv_f32;
    kernel.launch(*context.stream, launch_of(divide_up(heads, heads_per_group), threads),
                  {.kv = gpu::kv_address(spec.layout, args.cache, args.dense, args.block_tables, args.max_blocks),
                   .pages = gpu::coded_pages(spec.layout, args.cache, args.block_tables, args.max_blocks),
                   .shape = shape,
                   .k_out = args.k_out,
                   .v_out = args.v_out,
                   .first_head = args.first_head,
                   .group = spec.q_heads / spec.layout.kv_heads,
                   .head_dim = spec.layout.head_dim});
  }
};

class GpuQueryKey final : public PortableGpuKernel<QueryKey> {
 public:
  using PortableGpuKernel::PortableGpuKernel;

  void run(const QueryKey::Spec& spec, const QueryKey::Args& args, ExecutionContext& context) const override {
    check_arguments(spec, args, device());
    const ScoreShape& shape = args.shape;
    if (shape.count() == 0) {
      return;
    }
    query_key_kernel.launch(*context.stream, tile_launch(std::int64_t{shape.batch} * shape.heads, shape.q_len, shape.kv_len),
                            {.q = args.q,
                             .k = args.k,
                             .scores = args.scores,
                             .shape = shape,
                             .q_stride = args.q_stride != 0 ? args.q_stride : std::int64_t{shape.heads} * spec.head_dim,
                             .q_dtype = spec.q_dtype,
                             .head_dim = spec.head_dim,
                             .scale = args.scale});
  }
};

class GpuScale final : public PortableGpuKernel<Scale> {
 public:
  using PortableGpuKernel::PortableGpuKernel;

  void run(const Scale::Spec& spec, const Scale::Args& args, ExecutionContext& context) const override {
    check_arguments(spec, args);
    constexpr std::int64_t elems_per_thread = 4;
    if (args.count > 0) {
      scale_kernel.launch(*context.stream, launch_of(divide_up(args.count, threads * elems_per_thread), threads),
                          {.x = args.x,
                           .count = args.count,
                           .factor = args.factor,
                           .soft_cap = args.soft_cap,
                           .width = args.width,
                           .weights = args.weights,
                           .least = args.least,
                           .most = args.most});
    }
  }
};

class GpuCausalMask final : public PortableGpuKernel<CausalMask> {
 public:
  using PortableGpuKernel::PortableGpuKernel;

  void run(const CausalMask::Spec& spec, const CausalMask::Args& args, ExecutionContext& context) const override {
    check_arguments(spec, args, device());
    const ScoreShape& shape = args.shape;
    const bool changes = args.causal || args.window > 0 || args.mask != nullptr;
    if (shape.count() == 0 || !changes) {
      return;
    }
    causal_mask_kernel.launch(*context.stream, launch_of(divide_up(shape.kv_len, threads), shape.rows(), threads),
                              {.scores = args.scores,
                               .mask = args.mask,
                               .shape = shape,
                               .mask_stride = args.mask_stride,
                               .window = args.window,
                               .causal = args.causal ? 1 : 0});
  }
};

class GpuRowSoftmax final : public PortableGpuKernel<RowSoftmax> {
 public:
  using PortableGpuKernel::PortableGpuKernel;

  void run(const RowSoftmax::Spec& spec, const RowSoftmax::Args& args, ExecutionContext& context) const override {
    check_arguments(spec, args, device());
    if (args.shape.count() > 0) {
      row_softmax_kernel.launch(*context.stream, launch_of(args.shape.rows(), threads),
                                {.scores = args.scores, .sinks = args.sinks, .shape = args.shape});
    }
  }
};

class GpuWeightsValue final : public PortableGpuKernel<WeightsValue> {
 public:
  using PortableGpuKernel::PortableGpuKernel;

  void run(const WeightsValue::Spec& spec, const WeightsValue::Args& args, ExecutionContext& context) const override {
    check_arguments(spec, args, device());
    const ScoreShape& shape = args.shape;
    if (shape.rows() == 0) {
      return;
    }
    weights_value_kernel.launch(
        *context.stream, tile_launch(std::int64_t{shape.batch} * shape.heads, shape.q_len, spec.head_dim),
        {.weights = args.weights,
         .v = args.v,
         .out = args.out,
         .shape = shape,
         .out_stride = args.out_stride != 0 ? args.out_stride : std::int64_t{shape.heads} * spec.head_dim,
         .out_dtype = spec.out_dtype,
         .head_dim = spec.head_dim});
  }
};

}  // namespace

std::unique_ptr<OpKernel<ReplicateKv>> make_gpu_replicate_kv(DeviceKind kind) {
  return std::make_unique<GpuReplicateKv>(kind);
}
std::unique_ptr<OpKernel<QueryKey>> make_gpu_query_key(DeviceKind kind) { return std::make_unique<GpuQueryKey>(kind); }
std::unique_ptr<OpKernel<Scale>> make_gpu_scale(DeviceKind kind) { return std::make_unique<GpuScale>(kind); }
std::unique_ptr<OpKernel<CausalMask>> make_gpu_causal_mask(DeviceKind kind) { return std::make_unique<GpuCausalMask>(kind); }
std::unique_ptr<OpKernel<RowSoftmax>> make_gpu_row_softmax(DeviceKind kind) { return std::make_unique<GpuRowSoftmax>(kind); }
std::unique_ptr<OpKernel<WeightsValue>> make_gpu_weights_value(DeviceKind kind) {
  return std::make_unique<GpuWeightsValue>(kind);
}

}  // namespace rocmforge
