#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/math.h"
#include "device/driver.h"
#include "kernels/attention/amd/attention_decode_args.h"
#include "kernels/attention/kernels.h"
#include "kernels/attention/portable/attention_launch.h"
#include "kernels/launch/amd/architectures.h"
#include "kernels/launch/kernel_table.h"
#include "kernels/rows/portable/rope_launch.h"

namespace rocmforge {
namespace {

using amd::DecodeArgs;

/// What a kernel of attention_decode.hip is compiled for: the type of K and V, elements of a head at most, and query heads
/// of a work-group.
struct DecodeForm {
  DType type;
  std::int32_t dims;
  std::int32_t heads;

  friend constexpr bool operator==(const DecodeForm&, const DecodeForm&) = default;
};
constexpr FormKernel<DecodeForm, DecodeArgs> decode_kernels[] = {
#define ROCMFORGE_KERNEL(type, dims, heads) \
  {{DType::type, dims, heads}, {"attention_decode", "attention_decode_" #type "_" #dims "_" #heads, LaunchOrder::by_kernel}},
#define ROCMFORGE_HEADS(type, dims) \
  ROCMFORGE_KERNEL(type, dims, 1)   \
  ROCMFORGE_KERNEL(type, dims, 4)   \
  ROCMFORGE_KERNEL(type, dims, 8)
#define ROCMFORGE_DIMS(type) \
  ROCMFORGE_HEADS(type, 64)  \
  ROCMFORGE_HEADS(type, 128) \
  ROCMFORGE_HEADS(type, 256)
    ROCMFORGE_DIMS(f16) ROCMFORGE_DIMS(bf16) ROCMFORGE_DIMS(q8_0)
#undef ROCMFORGE_DIMS
#undef ROCMFORGE_HEADS
#undef ROCMFORGE_KERNEL
};

/// Query heads of a work-group, and work-groups for the query heads of one KV head.
struct Grouping {
  std::int32_t heads;
  std::int32_t tiles;
};
Grouping grouping(const Attention::Spec& spec) {
  const std::int32_t group = spec.q_heads / spec.kv_heads;
  const std::int32_t heads = group == 1 ? 1 : group <= 4 ? 4 : 8;
  return {heads, static_cast<std::int32_t>(divide_up(group, heads))};
}

std::int32_t padded_dim(const Attention::Spec& spec) { return spec.head_dim <= 64 ? 64 : spec.head_dim <= 128 ? 128 : 256; }

/// The grouping of a call: one query head a work-group where there are enough units and a head's bits are then the same.
Grouping grouping_of_call(const Attention::Spec& spec, std::int64_t rows, int units) {
  const Grouping group = grouping(spec);
  const bool alike = amd::decode_heads_alike(group.heads, padded_dim(spec));
  return alike && rows * spec.q_heads <= units ? Grouping{1, spec.q_heads / spec.kv_heads} : group;
}

std::int32_t rounds_of(std::int64_t keys) {
  // A window may begin inside one round and end inside another.
  return static_cast<std::int32_t>(divide_up(keys, std::int64_t{amd::decode_round_keys}) + 1);
}

/// Most pieces of a sequence: enough for a work-group on every unit when the sequence is alone, and more where some units
/// would have fewer work-groups than others.
std::int32_t pieces_of(const Attention::Spec& spec, int units) {
  const int heads = spec.kv_heads * grouping(spec).tiles;
  std::int32_t pieces = std::clamp(units / heads, 1, amd::most_decode_pieces);
  const auto uneven = [&](std::int32_t count) {  // above 6 %
    const std::int64_t groups = std::int64_t{heads} * count;
    return divide_up(groups, units) * units * 100 > groups * 106;
  };
  while (uneven(pieces) && pieces < amd::most_decode_pieces) {
    ++pieces;
  }
  return pieces;
}
/// Most pieces of any sequence of up to `keys` keys.
std::int32_t most_pieces(std::int32_t pieces, std::int64_t keys) { return std::min(pieces, rounds_of(keys)); }

/// Floats in the workspace for one sequence.
std::int64_t sequence_floats(const Attention::Spec& spec, std::int32_t pieces) {
  const Grouping group = grouping(spec);
  return std::int64_t{spec.kv_heads} * group.tiles * pieces * group.heads * (spec.head_dim + 2);
}

/// Sequences of one launch, so that their parts stay within 128 MiB.
std::int64_t sequences_of_a_launch(const Attention::Spec& spec, std::int64_t sequences, std::int32_t pieces) {
  constexpr std::int64_t most_floats = std::int64_t{32} << 20;
  constexpr std::int64_t most_groups = 65535;  // of a grid's third dimension
  return std::clamp<std::int64_t>(most_floats / sequence_floats(spec, pieces), 1,
                                  std::clamp<std::int64_t>(sequences, 1, most_groups));
}

class AmdAttentionDecode final : public gpu::GpuAttention {
 public:
  AmdAttentionDecode() : GpuAttention(DeviceKind::hip) {}
  [[nodiscard]] std::string_view name() const override { return "amd_decode"; }
  [[nodiscard]] KernelPriority priority() const override { return KernelPriority::architecture; }

  [[nodiscard]] Support supports(const Attention::Spec& spec, const DeviceInfo& device) const override {
    if (Support support = check_separate_values(spec); !support.ok) {
      return support;
    }
    if (Support support = check_no_spans(spec); !support.ok) {
      return support;
    }
    if (Support support = check_no_chunks(spec); !support.ok) {
      return support;
    }
    if (Support support = amd::check_architecture(device); !support.ok) {
      return support;
    }
    if (!spec.has_single_rows()) {
      return Support::no("for steps of one query row a sequence");
    }
    if (spec.head_dim % 8 != 0 || spec.head_dim > 256) {
      return Support::no(fmt::format("head_dim {} is not a multiple of 8 up to 256", spec.head_dim));
    }
    if (std::int64_t{spec.q_heads} * (spec.q_heads / spec.kv_heads) >= 65535) {
      return Support::no(fmt::format("{} query heads of {} KV heads", spec.q_heads, spec.kv_heads));
    }
    if (spec.kv_dtype != DType::f16 && spec.kv_dtype != DType::bf16 && spec.kv_dtype != DType::q8_0) {
      return Support::no(fmt::format("KV of {} is not F16, BF16 or Q8_0", rocmforge::name(spec.kv_dtype)));
    }
    return Support::yes();
  }

  [[nodiscard]] std::size_t workspace_bytes(const Attention::Spec& spec, const AttentionLimits& limits) const override {
    const std::int32_t pieces =
        limits.max_kv_len > 0 ? most_pieces(amd::most_decode_pieces, limits.max_kv_len) : amd::most_decode_pieces;
    const std::int64_t most = std::max<std::int64_t>(limits.max_sequences, 1);
    // With fewer pieces a launch takes more sequences, but their parts stay within the same bound.
    const std::int64_t all = most * sequence_floats(spec, pieces);
    const std::int64_t launch = (sequences_of_a_launch(spec, most, pieces) + 1) * sequence_floats(spec, pieces);
    return static_cast<std::size_t>(std::min(all, launch)) * sizeof(float);
  }

  [[nodiscard]] std::size_t state_bytes(const Attention::Spec& spec, const AttentionLimits& limits) const override {
    const std::int64_t sequences = std::max<std::int64_t>(limits.max_sequences, 1);
    return static_cast<std::size_t>(sequences * spec.q_heads) * sizeof(std::uint32_t);
  }

  /// Queries are floats then, as RopeAppend's are; the appended key is the last one that a row sees.
  [[nodiscard]] bool takes(const Attention::Spec& spec, const RopeAppend::Spec& append) const override {
    return spec.has_single_rows() && spec.causal && !spec.mask && spec.io_dtype == DType::f32 &&
           append.head_dim == spec.head_dim;
  }

  void run(const Attention::Spec& spec, const KvLayout& layout, const Attention::Args& args,
           ExecutionContext& context) const override {
    DecodeArgs kernel_args{};
    if (args.append != nullptr) {
      kernel_args.append = gpu::rope_append_args(args.append->spec, args.append->args);
    }
    gpu::AttentionArgs& call = kernel_args.call;
    call = attention_args(spec, layout, args);
    gpu::check_vector_loads(call.kv, spec.kv_dtype.k);
    check(args.workspace != nullptr, "attention: workspace is null");
    check(args.state != nullptr, "attention: state is null");
    const std::int64_t sequences = args.batch.num_sequences;
    if (args.batch.num_tokens == 0 || sequences == 0) {
      return;
    }
    const DeviceInfo& device = context.stream->device().info();
    const int units = std::max(1, device.compute_units);
    kernel_args.group = spec.q_heads / spec.kv_heads;
    kernel_args.pieces = pieces_of(spec, units);
    kernel_args.pieces_factor = amd::pieces_factor(kernel_args.pieces);
    const std::int32_t pieces = most_pieces(kernel_args.pieces, args.batch.max_kv_len);
    const Grouping group = grouping_of_call(spec, sequences * pieces, units);
    const std::int64_t at_once = sequences_of_a_launch(spec, sequences, pieces);
    const std::int64_t parts = at_once * spec.kv_heads * group.tiles * pieces * group.heads;
    call.partial_sums = static_cast<float*>(args.workspace);
    call.partial_states = call.partial_sums + parts * spec.head_dim;
    call.counters = static_cast<std::uint32_t*>(args.state);
    call.group_tiles = group.tiles;
    kernel_args.tile_factor = amd::tile_factor(group.tiles);
    call.by_sequence = 1;
    LaunchShape shape;
    shape.block[0] = static_cast<std::uint32_t>(amd::decode_threads(group.heads, padded_dim(spec), device.wave_size));
    shape.grid[0] = static_cast<std::uint32_t>(pieces);
    shape.grid[1] = static_cast<std::uint32_t>(spec.kv_heads * group.tiles);
    const DecodeForm form{spec.kv_dtype.k, padded_dim(spec), group.heads};
    const Kernel<DecodeArgs>& kernel = kernel_of(decode_kernels, form);
    for (std::int64_t first = 0; first < sequences; first += at_once) {
      call.first_item = static_cast<std::int32_t>(first);
      shape.grid[2] = static_cast<std::uint32_t>(std::min(at_once, sequences - first));
      kernel.launch(*context.stream, shape, kernel_args);
    }
  }
};

}  // namespace

std::unique_ptr<AttentionBackend> make_amd_attention_decode() { return std::make_unique<AmdAttentionDecode>(); }

}  // namespace rocmforge
