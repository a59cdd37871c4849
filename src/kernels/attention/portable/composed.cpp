#include <algorithm>

#include "kernels/attention/kernels.h"
#include "kernels/attention/portable/attention_launch.h"

namespace rocmforge {
namespace {

constexpr std::int64_t most_floats = std::int64_t{64} << 20;  ///< 256 MiB of K, V and scores, unless one head needs more

/// The part of a step that is computed at once.
struct Pass {
  std::int64_t sequences = 1;
  std::int64_t heads = 1;
  std::int64_t rows = 1;
  std::int64_t kv_len = 1;
  std::int64_t head_dim = 1;

  [[nodiscard]] std::int64_t kv_floats() const { return sequences * heads * kv_len * head_dim; }
  [[nodiscard]] std::int64_t score_floats() const { return sequences * heads * rows * kv_len; }
  [[nodiscard]] std::int64_t floats() const { return 2 * kv_floats() + score_floats(); }
};

/// The whole step.
Pass whole_step(const Attention::Spec& spec, std::int64_t sequences, std::int64_t rows, std::int64_t kv_len) {
  constexpr std::int64_t keys_per_load = 4;  // rows of scores are then read four at a time
  return {.sequences = std::max<std::int64_t>(sequences, 1),
          .heads = spec.q_heads,
          .rows = std::max<std::int64_t>(rows, 1),
          .kv_len = divide_up(std::max<std::int64_t>(kv_len, 1), keys_per_load) * keys_per_load,
          .head_dim = spec.head_dim};
}

/// As much of the step as fits: first rows, then heads, then sequences.
Pass largest_pass(const Pass& all) {
  Pass pass = all;
  pass.sequences = 1;
  pass.heads = 1;
  pass.rows = 1;
  const auto grow = [&](std::int64_t Pass::*size, std::int64_t most) {
    while (pass.*size < most) {
      Pass larger = pass;
      larger.*size = std::min(most, 2 * (pass.*size));
      if (larger.floats() > most_floats) {
        return;
      }
      pass = larger;
    }
  };
  grow(&Pass::rows, all.rows);
  grow(&Pass::heads, all.heads);
  grow(&Pass::sequences, all.sequences);
  return pass;
}

std::int32_t extent(std::int64_t most, std::int64_t left) { return static_cast<std::int32_t>(std::min(most, left)); }

/// The address `elems` elements after `from`, of a type without blocks.
const void* advance(const void* from, DType dtype, std::int64_t elems) {
  return static_cast<const std::byte*>(from) + row_bytes(dtype, elems);
}

/// Attention as separate steps, each by the kernel that the registry offers for it: any head_dim, any option, any batch. A
/// pass computes some sequences, heads and rows, so that K, V and scores fit the workspace.
class ComposedAttention final : public gpu::GpuAttention {
 public:
  explicit ComposedAttention(DeviceKind kind)
      : GpuAttention(kind),
        replicate_kv_(make_gpu_replicate_kv(kind)),
        query_key_(make_gpu_query_key(kind)),
        scale_(make_gpu_scale(kind)),
        causal_mask_(make_gpu_causal_mask(kind)),
        row_softmax_(make_gpu_row_softmax(kind)),
        weights_value_(make_gpu_weights_value(kind)) {}

  [[nodiscard]] std::string_view name() const override { return "composed"; }
  [[nodiscard]] KernelPriority priority() const override { return KernelPriority::portable; }

  [[nodiscard]] Support supports(const Attention::Spec& spec, const DeviceInfo&) const override {
    if (Support support = check_no_spans(spec); !support.ok) {
      return support;
    }
    if (Support support = check_no_chunks(spec); !support.ok) {
      return support;
    }
    return check_separate_values(spec);
  }

  [[nodiscard]] std::size_t workspace_bytes(const Attention::Spec& spec, const AttentionLimits& limits) const override {
    const Pass all = whole_step(spec, limits.max_sequences, limits.max_tokens, limits.max_kv_len);
    Pass least = all;
    least.sequences = 1;
    least.heads = 1;
    least.rows = 1;
    return static_cast<std::size_t>(std::min(all.floats(), std::max(most_floats, least.floats()))) * sizeof(float);
  }

  void run(const Attention::Spec& spec, const KvLayout& layout, const Attention::Args& args,
           ExecutionContext& context) const override {
    check_call(spec, layout, args);
    check(args.workspace != nullptr, "attention: workspace is null");
    const RaggedBatch& batch = args.batch;
    if (batch.num_tokens == 0) {
      return;
    }
    const Pass all = whole_step(spec, batch.num_sequences, batch.max_q_len, batch.max_kv_len);
    const Pass pass = largest_pass(all);
    for (std::int64_t s = 0; s < all.sequences; s += pass.sequences) {
      for (std::int64_t h = 0; h < all.heads; h += pass.heads) {
        const ScoreShape shape{.batch = extent(pass.sequences, all.sequences - s),
                               .heads = extent(pass.heads, all.heads - h),
                               .kv_len = static_cast<std::int32_t>(pass.kv_len),
                               .query_offsets = batch.query_offsets + s,
                               .kv_lengths = batch.kv_lengths + s,
                               .computed = args.rows};
        run_heads({spec, layout, args, context}, shape, s, h, all.rows, pass);
      }
    }
    gpu::turn_output_back(spec, args, *context.stream);
  }

 private:
  struct Call {
    const Attention::Spec& spec;
    const KvLayout& layout;
    const Attention::Args& args;
    ExecutionContext& context;
  };

  /// All rows of the heads from `head` on of the sequences from `sequence` on.
  void run_heads(const Call& call, ScoreShape shape, std::int64_t sequence, std::int64_t head, std::int64_t rows,
                 const Pass& pass) const {
    auto* k = static_cast<float*>(call.args.workspace);
    float* v = k + pass.kv_floats();
    float* scores = v + pass.kv_floats();
    shape.q_len = extent(pass.rows, rows);
    replicate(call, shape, sequence, head, k, v);
    for (std::int64_t r = 0; r < rows; r += pass.rows) {
      shape.first_row = static_cast<std::int32_t>(r);
      shape.q_len = extent(pass.rows, rows - r);
      run_rows(call, shape, head, k, v, scores);
    }
  }

  void replicate(const Call& call, const ScoreShape& shape, std::int64_t sequence, std::int64_t head, float* k,
                 float* v) const {
    const RaggedBatch& batch = call.args.batch;
    ReplicateKv::Args args{.cache = call.args.cache,
                           .max_blocks = batch.max_blocks,
                           .dense = call.args.dense,
                           .shape = shape,
                           .first_head = static_cast<std::int32_t>(head),
                           .k_out = k,
                           .v_out = v};
    if (DenseKv& dense = args.dense; dense.k != nullptr) {
      dense.k = advance(dense.k, call.spec.kv_dtype.k, sequence * dense.sequence_stride);
      dense.v = advance(dense.v, call.spec.kv_dtype.v, sequence * dense.sequence_stride);
    } else {
      args.block_tables = batch.block_tables + sequence * batch.max_blocks;
    }
    replicate_kv_->run({.q_heads = call.spec.q_heads, .layout = call.layout}, args, call.context);
  }

  void run_rows(const Call& call, const ScoreShape& shape, std::int64_t head, const float* k, const float* v,
                float* scores) const {
    const Attention::Spec& spec = call.spec;
    const Attention::Args& args = call.args;
    const std::int64_t first_elem = head * spec.head_dim;  // of a row of q and of out
    query_key_->run({.head_dim = spec.head_dim, .q_dtype = spec.io_dtype},
                    {.q = advance(args.q, spec.io_dtype, first_elem),
                     .q_stride = args.q_stride,
                     .k = k,
                     .shape = shape,
                     .scale = attention_scale(spec),
                     .scores = scores},
                    call.context);
    if (spec.soft_cap > 0.0f) {
      scale_->run({}, {.x = scores, .count = shape.count(), .soft_cap = spec.soft_cap}, call.context);
    }
    causal_mask_->run({},
                      {.scores = scores,
                       .shape = shape,
                       .window = spec.window,
                       .causal = spec.causal,
                       .mask = spec.mask ? args.mask : nullptr,
                       .mask_stride = args.mask_stride},
                      call.context);
    row_softmax_->run({}, {.scores = scores, .shape = shape, .sinks = spec.sinks ? args.sinks + head : nullptr},
                      call.context);
    weights_value_->run({.head_dim = spec.head_dim, .out_dtype = spec.io_dtype},
                        {.weights = scores,
                         .v = v,
                         .shape = shape,
                         .out = static_cast<std::byte*>(args.out) + row_bytes(spec.io_dtype, first_elem),
                         .out_stride = std::int64_t{spec.q_heads} * spec.head_dim},
                        call.context);
  }

  std::unique_ptr<OpKernel<ReplicateKv>> replicate_kv_;
  std::unique_ptr<OpKernel<QueryKey>> query_key_;
  std::unique_ptr<OpKernel<Scale>> scale_;
  std::unique_ptr<OpKernel<CausalMask>> causal_mask_;
  std::unique_ptr<OpKernel<RowSoftmax>> row_softmax_;
  std::unique_ptr<OpKernel<WeightsValue>> weights_value_;
};

}  // namespace

std::unique_ptr<AttentionBackend> make_gpu_composed_attention(DeviceKind kind) {
  return std::make_unique<ComposedAttention>(kind);
}

}  // namespace rocmforge
