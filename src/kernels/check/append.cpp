#include <algorithm>

#include "kernels/check/append_args.h"
#include "kernels/check/check_kernel.h"
#include "kernels/check/kernels.h"
#include "kernels/check/launch.h"

namespace rocmforge {
namespace {

using check_kernels::LatentAppendCheckArgs;
using check_kernels::one_thread_each;
using check_kernels::PagesCheckArgs;
using check_kernels::RopeCheckArgs;
using check_kernels::TurnCheckArgs;
using check_kernels::TurnQueriesCheckArgs;

constexpr Kernel<RopeCheckArgs> rope_kernel{"append_check", "check_rope"};
constexpr Kernel<TurnQueriesCheckArgs> turn_kernel{"append_check", "check_turn_queries"};
constexpr Kernel<LatentAppendCheckArgs> latent_kernel{"append_check", "check_latent_append"};

/// Of a RopeAppend::Spec or a LatentAppend::Spec.
template <class Spec>
std::int32_t temperature_ahead_of(const Spec& spec) {
  if constexpr (requires { spec.temperature_ahead; }) {
    return spec.temperature_ahead;
  } else {
    return 0;
  }
}

template <class Spec>
TurnCheckArgs turn_of(const Spec& spec, const float* inverse_frequency, const std::int32_t* axes) {
  return {.inverse_frequency = inverse_frequency,
          .axes = axes,
          .pairs = spec.kind == RopeKind::none ? 0 : spec.n_rot / 2,
          .adjacent = spec.kind == RopeKind::adjacent ? 1 : 0,
          .magnitude = double{spec.magnitude},
          .temperature_scale = double{spec.temperature_scale},
          .temperature_length = std::max(spec.temperature_length, 1),
          .temperature_ahead = temperature_ahead_of(spec)};
}

PagesCheckArgs pages_of(const KvLayout& layout, const KvCacheView& cache, const RaggedBatch& batch) {
  return {.coded = gpu::coded_pages(layout, cache, batch.block_tables, batch.max_blocks),
          .positions = batch.positions,
          .sequence_of = batch.sequence_of,
          .kv_lengths = batch.kv_lengths,
          .query_offsets = batch.query_offsets,
          .tokens = batch.num_tokens,
          .block_tokens = layout.block_tokens,
          .head_dim = layout.head_dim,
          .position_axes = batch.position_axes,
          .hadamard_block = hadamard_dims(layout.head_dim)};
}

class CheckRopeAppend final : public AnyCheckKernel<RopeAppend> {
 public:
  using AnyCheckKernel::AnyCheckKernel;
  void run(const RopeAppend::Spec& spec, const RopeAppend::Args& args, ExecutionContext& context) const override {
    check_arguments(spec, args, device());
    if (args.batch.num_tokens == 0) {
      return;
    }
    const std::int32_t kv_heads = spec.append ? spec.layout.kv_heads : 0;
    rope_kernel.launch(*context.stream, one_thread_each(std::int64_t{args.batch.num_tokens} * (spec.q_heads + 2 * kv_heads)),
                       {.turn = turn_of(spec, args.inverse_frequency, args.batch.position_axes > 1 ? args.axes : nullptr),
                        .pages = pages_of(spec.layout, args.cache, args.batch),
                        .q = args.q,
                        .k = args.k,
                        .v = args.v,
                        .q_norm = spec.head_norm ? args.q_norm : nullptr,
                        .k_norm = spec.head_norm ? args.k_norm : nullptr,
                        .stride = args.stride,
                        .q_heads = spec.q_heads,
                        .kv_heads = kv_heads,
                        .value_norm = spec.value_norm ? 1 : 0,
                        .norm_after_turn = spec.norm_after_turn ? 1 : 0,
                        .norm_eps = double{spec.norm_eps}});
    if (spec.layout.dtype.k_rotated) {
      turn_kernel.launch(*context.stream, one_thread_each(std::int64_t{args.batch.num_tokens} * spec.q_heads),
                         {.q = args.q,
                          .stride = args.stride,
                          .tokens = args.batch.num_tokens,
                          .q_heads = spec.q_heads,
                          .head_dim = spec.head_dim,
                          .block = hadamard_dims(spec.head_dim)});
    }
  }
};

class CheckLatentAppend final : public AnyCheckKernel<LatentAppend> {
 public:
  using AnyCheckKernel::AnyCheckKernel;
  void run(const LatentAppend::Spec& spec, const LatentAppend::Args& args, ExecutionContext& context) const override {
    check_arguments(spec, args, device());
    if (args.batch.num_tokens == 0) {
      return;
    }
    latent_kernel.launch(*context.stream, one_thread_each(std::int64_t{args.batch.num_tokens} * (spec.q_heads + 1)),
                         {.turn = turn_of(spec, args.inverse_frequency, nullptr),
                          .pages = pages_of(spec.layout, args.cache, args.batch),
                          .q = args.q,
                          .kv = args.kv,
                          .norm = args.norm,
                          .q_stride = args.q_stride,
                          .kv_stride = args.kv_stride,
                          .q_heads = spec.q_heads,
                          .q_dim = spec.q_dim,
                          .rank = spec.layout.value_dim,
                          .n_rot = spec.n_rot,
                          .norm_eps = double{spec.norm_eps}});
  }
};

}  // namespace

std::unique_ptr<OpKernel<RopeAppend>> make_check_rope_append(DeviceKind kind) {
  return std::make_unique<CheckRopeAppend>(kind);
}
std::unique_ptr<OpKernel<LatentAppend>> make_check_latent_append(DeviceKind kind) {
  return std::make_unique<CheckLatentAppend>(kind);
}

}  // namespace rocmforge
