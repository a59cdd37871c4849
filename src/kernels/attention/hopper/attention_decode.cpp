#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "device/device.h"
#include "kernels/attention/hopper/attention_decode_args.h"
#include "kernels/attention/hopper/attention_launch.h"
#include "kernels/attention/kernels.h"
#include "kernels/check/arguments/arguments.h"
#include "kernels/launch/hopper/architecture.h"
#include "kernels/launch/kernel_table.h"

namespace rocmforge {
namespace {

using hopper::AttentionDecodeArgs;
using hopper::DecodeShape;
using hopper::DecodeSplit;

/// What a kernel of attention_decode.cu is compiled for: the type of K and V, and of DecodeShape `padded` and `heads`.
struct DecodeForm {
  DType type;
  std::int32_t padded;
  std::int32_t heads;

  friend constexpr bool operator==(const DecodeForm&, const DecodeForm&) = default;
};
constexpr FormKernel<DecodeForm, AttentionDecodeArgs> decode_kernels[] = {
#define ROCMFORGE_KERNEL(type, padded, heads) \
  {{DType::type, padded, heads},              \
   {"attention_decode", "attention_decode_" #type "_" #padded "_" #heads, LaunchOrder::by_kernel}},
#define ROCMFORGE_KERNELS(type)   \
  ROCMFORGE_KERNEL(type, 64, 8)   \
  ROCMFORGE_KERNEL(type, 64, 16)  \
  ROCMFORGE_KERNEL(type, 128, 8)  \
  ROCMFORGE_KERNEL(type, 128, 16) \
  ROCMFORGE_KERNEL(type, 256, 8)  \
  ROCMFORGE_KERNEL(type, 256, 16)
    ROCMFORGE_KERNELS(f16) ROCMFORGE_KERNELS(bf16) ROCMFORGE_KERNELS(q8_0)
#undef ROCMFORGE_KERNELS
#undef ROCMFORGE_KERNEL
};

constexpr std::int32_t multiprocessors_of_sm_90 = 132;
/// The list of tiles is counted in 32 bits.
constexpr std::int64_t most_tiles = std::int64_t{1} << 30;

DecodeShape variant_of(const Attention::Spec& spec) {
  const std::int32_t padded = spec.head_dim <= 64 ? 64 : spec.head_dim <= 128 ? 128 : 256;
  const std::int32_t heads = spec.q_heads / spec.kv_heads <= 8 ? 8 : 16;
  const bool quants = spec.kv_dtype == DType::q8_0;
  return {padded, heads, hopper::decode_groups(quants, padded, heads), quants};
}
std::int32_t head_tiles(const Attention::Spec& spec) {
  const std::int32_t heads = variant_of(spec).heads;
  return (spec.q_heads / spec.kv_heads + heads - 1) / heads;
}
std::int32_t part_heads(const Attention::Spec& spec) {
  return std::min(variant_of(spec).heads, spec.q_heads / spec.kv_heads);
}

/// One sequence alone should occupy all multiprocessors, but its pieces must then be added up.
DecodeSplit split_of(const Attention::Spec& spec) {
  const std::int32_t heads = spec.kv_heads * head_tiles(spec);
  return {.whole = 4, .wanted = std::clamp(multiprocessors_of_sm_90 / heads, 8, 64), .least = 2, .most = 32, .limit = 128};
}
std::int32_t tiles_of(std::int64_t keys) {
  // A window may begin inside one tile and end inside another.
  return static_cast<std::int32_t>((keys + hopper::decode_tile_keys - 1) / hopper::decode_tile_keys + 1);
}
/// Most pieces of any sequence of up to `kv_len` keys.
std::int32_t most_pieces(const DecodeSplit& split, std::int64_t kv_len) {
  const std::int32_t tiles = tiles_of(kv_len);
  if (tiles <= split.whole) {
    return 1;
  }
  // Pieces are of `least` tiles, then about `wanted`, then of `most` tiles until `limit` is reached.
  return std::min({split.limit, tiles, std::max({split.wanted, (tiles + split.most - 1) / split.most}) + 1});
}

/// The paged cache as [blocks, 2 kv_heads, block_tokens, head_dim]; a box is the part of one head's block that a tile takes.
/// Quants are elements of 16 bits in pairs.
TensorBoxes paged_boxes(const KvLayout& layout, const KvCacheView& cache) {
  const std::uint64_t row_bytes = static_cast<std::uint64_t>(layout.head_dim) * (layout.dtype == DType::q8_0 ? 1 : 2);
  return {.address = cache.data,
          .size = {row_bytes / 2, static_cast<std::uint64_t>(layout.block_tokens),
                   2 * static_cast<std::uint64_t>(layout.kv_heads), static_cast<std::uint64_t>(cache.num_blocks)},
          .stride_bytes = {row_bytes, layout.head_bytes(), layout.block_bytes()},
          .box = {64, static_cast<std::uint32_t>(std::min(layout.block_tokens, hopper::decode_tile_keys)), 1, 1},
          .streamed = true};
}

/// Dense K or V as [sequences, kv_len, kv_heads, head_dim].
TensorBoxes dense_boxes(const Attention::Spec& spec, const Attention::Args& args, const void* address) {
  const auto bytes = [](std::int64_t elements) { return static_cast<std::uint64_t>(elements) * 2; };
  return {.address = address,
          .size = {static_cast<std::uint64_t>(spec.head_dim), static_cast<std::uint64_t>(spec.kv_heads),
                   static_cast<std::uint64_t>(args.batch.max_kv_len), static_cast<std::uint64_t>(args.batch.num_sequences)},
          .stride_bytes = {bytes(args.dense.head_stride), bytes(args.dense.token_stride), bytes(args.dense.sequence_stride)},
          .box = {64, 1, static_cast<std::uint32_t>(hopper::decode_tile_keys), 1}};
}

class HopperAttentionDecode final : public AttentionBackend {
 public:
  [[nodiscard]] std::string_view name() const override { return "hopper_decode"; }
  [[nodiscard]] DeviceKind device() const override { return DeviceKind::cuda; }
  [[nodiscard]] KernelPriority priority() const override { return KernelPriority::architecture; }

  [[nodiscard]] Support supports(const Attention::Spec& spec, const DeviceInfo& device) const override {
    if (Support general = check_separate_values(spec); !general.ok) {
      return general;
    }
    if (Support support = check_no_spans(spec); !support.ok) {
      return support;
    }
    if (Support support = check_no_chunks(spec); !support.ok) {
      return support;
    }
    if (Support support = hopper::check_architecture(device); !support.ok) {
      return support;
    }
    if (!spec.has_single_rows()) {
      return Support::no("for steps of one query row a sequence");
    }
    if (spec.mask) {
      return Support::no("an additive mask");
    }
    if (spec.head_dim % 8 != 0 || spec.head_dim > 256) {
      return Support::no(fmt::format("head_dim {} is not a multiple of 8 up to 256", spec.head_dim));
    }
    if (spec.kv_dtype != DType::f16 && spec.kv_dtype != DType::bf16 && spec.kv_dtype != DType::q8_0) {
      return Support::no(fmt::format("KV of {} is not F16, BF16 or Q8_0", rocmforge::name(spec.kv_dtype)));
    }
    if (spec.kv_dtype != DType::q8_0 && spec.io_dtype != DType::f32 && spec.io_dtype != spec.kv_dtype) {
      return Support::no(
          fmt::format("q of {} with KV of {}", rocmforge::name(spec.io_dtype), rocmforge::name(spec.kv_dtype)));
    }
    return Support::yes();
  }

  [[nodiscard]] KvLayout layout(const Attention::Spec& spec) const override {
    return {.dtype = spec.kv_dtype,
            .block_tokens = block_tokens_default,
            .kv_heads = spec.kv_heads,
            .head_dim = spec.head_dim,
            .k_order = KvOrder::token_major,
            .v_order = KvOrder::token_major};
  }

  /// Only heads whose pieces lie in several work-groups leave parts in memory; a work-group has at most one such head.
  [[nodiscard]] std::size_t workspace_bytes(const Attention::Spec& spec, const AttentionLimits& limits) const override {
    const DecodeShape variant = variant_of(spec);
    const DecodeSplit split = split_of(spec);
    const std::int64_t pieces = limits.max_kv_len > 0 ? most_pieces(split, limits.max_kv_len) : split.limit;
    return static_cast<std::size_t>(work_groups_at_most * pieces * part_heads(spec) * (variant.padded + 2)) * sizeof(float);
  }
  [[nodiscard]] std::size_t state_bytes(const Attention::Spec&, const AttentionLimits&) const override {
    return work_groups_at_most * sizeof(std::uint32_t);
  }

  void run(const Attention::Spec& spec, const KvLayout& layout, const Attention::Args& args,
           ExecutionContext& context) const override {
    check_arguments(spec, layout, args, device());
    const bool dense = args.dense.k != nullptr;
    check(dense || (layout.k_order == KvOrder::token_major && layout.v_order == KvOrder::token_major),
          "attention: this backend reads K and V by token");
    check(!dense || (args.dense.head_stride * 2 % 16 == 0 && args.dense.token_stride * 2 % 16 == 0 &&
                     args.dense.sequence_stride * 2 % 16 == 0),
          "attention: dense K and V need strides that are multiples of 8 elements");
    check(args.workspace != nullptr, "attention: workspace is null");
    check(args.state != nullptr, "attention: state is null");
    const DecodeShape variant = variant_of(spec);
    const DecodeSplit split = split_of(spec);
    const std::int64_t heads = std::int64_t{spec.kv_heads} * head_tiles(spec);
    const std::int64_t entries = args.batch.num_sequences * heads * most_pieces(split, args.batch.max_kv_len);
    check(args.batch.num_sequences * heads * tiles_of(args.batch.max_kv_len) < most_tiles, "attention: too many keys");
    if (entries == 0) {
      return;
    }
    const AttentionDecodeArgs kernel_args = arguments(spec, layout, args, context);
    LaunchShape shape;
    shape.grid[0] = static_cast<std::uint32_t>(
        std::min<std::int64_t>({entries, context.stream->device().info().compute_units, work_groups_at_most}));
    shape.block[0] = static_cast<std::uint32_t>(variant.threads());
    shape.shared_bytes = static_cast<std::uint32_t>(variant.shared_bytes());
    const DecodeForm form{spec.kv_dtype.k, variant.padded, variant.heads};
    kernel_of(decode_kernels, form).launch(*context.stream, shape, kernel_args);
  }

 private:
  static constexpr std::int64_t work_groups_at_most = 160;

  [[nodiscard]] static AttentionDecodeArgs arguments(const Attention::Spec& spec, const KvLayout& layout,
                                                     const Attention::Args& args, ExecutionContext& context) {
    const DecodeShape variant = variant_of(spec);
    const RaggedBatch& batch = args.batch;
    Driver& driver = context.stream->device().driver();
    AttentionDecodeArgs out{};
    if (args.dense.k != nullptr) {
      out.k = driver.tensor_map(dense_boxes(spec, args, args.dense.k));
      out.v = driver.tensor_map(dense_boxes(spec, args, args.dense.v));
    } else {
      out.k = driver.tensor_map(paged_boxes(layout, args.cache));
      out.v = out.k;
      out.block_tables = batch.block_tables;
    }
    if (layout.dtype == DType::q8_0) {
      out.scales = static_cast<const char*>(args.cache.data) + layout.head_elems();
      out.scale_block_stride = static_cast<std::int64_t>(layout.block_bytes());
      out.scale_head_stride = static_cast<std::int64_t>(layout.head_bytes());
    }
    out.q = args.q;
    out.q_stride = args.q_stride;
    out.out = args.out;
    out.query_offsets = batch.query_offsets;
    out.kv_lengths = batch.kv_lengths;
    out.sinks = spec.sinks ? args.sinks : nullptr;
    out.split = split_of(spec);
    out.max_pieces = most_pieces(out.split, batch.max_kv_len);
    out.part_heads = part_heads(spec);
    out.partial_sums = static_cast<float*>(args.workspace);
    out.partial_states = out.partial_sums + work_groups_at_most * out.max_pieces * out.part_heads * variant.padded;
    out.counters = static_cast<std::uint32_t*>(args.state);
    out.max_blocks = batch.max_blocks;
    out.block_shift = std::countr_zero(static_cast<std::uint32_t>(layout.block_tokens));
    out.num_sequences = batch.num_sequences;
    out.q_heads = spec.q_heads;
    out.kv_heads = spec.kv_heads;
    out.group = spec.q_heads / spec.kv_heads;
    out.head_tiles = head_tiles(spec);
    out.head_dim = spec.head_dim;
    out.window = spec.window;
    const std::size_t pair_bytes = 2 * row_bytes(spec.io_dtype, 1);
    const std::size_t stride_bytes = row_bytes(spec.io_dtype, args.q_stride);
    out.q_aligned = reinterpret_cast<std::uintptr_t>(args.q) % pair_bytes == 0 && stride_bytes % pair_bytes == 0 ? 1 : 0;
    out.io = io_type(spec.io_dtype);
    out.scale = attention_scale(spec);
    out.soft_cap = spec.soft_cap;
    return out;
  }
};

}  // namespace

std::unique_ptr<AttentionBackend> make_hopper_attention_decode() { return std::make_unique<HopperAttentionDecode>(); }

}  // namespace rocmforge
