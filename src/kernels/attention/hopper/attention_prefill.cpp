#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>

#include "device/device.h"
#include "kernels/attention/hopper/attention_args.h"
#include "kernels/attention/hopper/attention_launch.h"
#include "kernels/attention/hopper/attention_prefill_pipeline.h"
#include "kernels/attention/hopper/attention_unpack_args.h"
#include "kernels/attention/kernels.h"
#include "kernels/attention/portable/attention_launch.h"
#include "kernels/check/arguments/arguments.h"
#include "kernels/launch/hopper/architecture.h"
#include "kernels/launch/kernel_table.h"

namespace rocmforge {
namespace {

using hopper::AttentionPrefillArgs;
using hopper::prefill::rows_per_consumer;
using hopper::prefill::Variant;
using hopper::prefill::variant_of;

/// What a kernel of attention_prefill.cu is compiled for: the type of K and V, Variant::padded, and whether scores need more
/// than a factor.
struct PrefillForm {
  DType type;
  int padded;
  bool special;

  friend constexpr bool operator==(const PrefillForm&, const PrefillForm&) = default;
};
constexpr FormKernel<PrefillForm, AttentionPrefillArgs> prefill_kernels[] = {
#define ROCMFORGE_KERNEL(type, padded) \
  {{DType::type, padded, false}, {"attention_prefill", "attention_prefill_" #type "_" #padded}},
#define ROCMFORGE_SPECIAL(type, padded) \
  {{DType::type, padded, true}, {"attention_prefill", "attention_prefill_" #type "_" #padded "_special"}},
#define ROCMFORGE_KERNELS(type) \
  ROCMFORGE_KERNEL(type, 64)    \
  ROCMFORGE_KERNEL(type, 128)   \
  ROCMFORGE_KERNEL(type, 256)   \
  ROCMFORGE_KERNEL(type, 512)   \
  ROCMFORGE_SPECIAL(type, 64)   \
  ROCMFORGE_SPECIAL(type, 128)  \
  ROCMFORGE_SPECIAL(type, 256)
    ROCMFORGE_KERNELS(f16) ROCMFORGE_KERNELS(bf16)
#undef ROCMFORGE_KERNELS
#undef ROCMFORGE_SPECIAL
#undef ROCMFORGE_KERNEL
};

/// By the type of the numbers that are written.
constexpr FormKernel<DType, hopper::AttentionUnpackArgs> unpack_kernels[] = {
    {DType::f16, {"attention_unpack", "attention_unpack_f16"}},
    {DType::bf16, {"attention_unpack", "attention_unpack_bf16"}},
};
constexpr FormKernel<DType, hopper::AttentionUnpackCodedArgs> unpack_coded_kernels[] = {
    {DType::f16, {"attention_unpack", "attention_unpack_coded_f16"}},
    {DType::bf16, {"attention_unpack", "attention_unpack_coded_bf16"}},
};

/// Size of the K and V of heads computed at the same time: half of the L2 cache; the rest is for streamed data.
constexpr std::int64_t section_bytes = std::int64_t{24} << 20;

constexpr std::int32_t most_head_dim = 512;
constexpr std::int32_t most_special_head_dim = 256;  ///< with a soft-cap or a mask

/// Whether all rows start at multiples of 16 bytes.
bool is_aligned(const void* address, std::size_t stride_bytes) {
  return reinterpret_cast<std::uintptr_t>(address) % 16 == 0 && stride_bytes % 16 == 0;
}

/// The paged cache as [blocks, 2 kv_heads, block_tokens, head_dim]; a box is the part of one head's block that a tile takes.
TensorBoxes paged_boxes(const KvLayout& layout, const KvCacheView& cache, int keys) {
  const auto head_bytes = static_cast<std::uint64_t>(layout.head_elems()) * 2;
  return {.address = cache.data,
          .size = {static_cast<std::uint64_t>(layout.head_dim), static_cast<std::uint64_t>(layout.block_tokens),
                   2 * static_cast<std::uint64_t>(layout.kv_heads), static_cast<std::uint64_t>(cache.num_blocks)},
          .stride_bytes = {static_cast<std::uint64_t>(layout.head_dim) * 2, head_bytes, layout.block_bytes()},
          .box = {64, static_cast<std::uint32_t>(std::gcd(layout.block_tokens, keys)), 1, 1}};
}

/// q as [1, tokens, q_heads, head_dim].
TensorBoxes query_boxes(const Attention::Spec& spec, const Attention::Args& args) {
  const auto row_bytes = static_cast<std::uint64_t>(args.q_stride) * 2;
  const auto tokens = static_cast<std::uint64_t>(args.batch.num_tokens);
  return {.address = args.q,
          .size = {static_cast<std::uint64_t>(spec.head_dim), static_cast<std::uint64_t>(spec.q_heads), tokens, 1},
          .stride_bytes = {static_cast<std::uint64_t>(spec.head_dim) * 2, row_bytes, row_bytes * tokens},
          .box = {64, 1, rows_per_consumer, 1}};
}

/// Dense K or V as [sequences, kv_len, kv_heads, head_dim].
TensorBoxes dense_boxes(const Attention::Spec& spec, const Attention::Args& args, const void* address, int keys) {
  const auto bytes = [](std::int64_t elements) { return static_cast<std::uint64_t>(elements) * 2; };
  return {.address = address,
          .size = {static_cast<std::uint64_t>(spec.head_dim), static_cast<std::uint64_t>(spec.kv_heads),
                   static_cast<std::uint64_t>(args.batch.max_kv_len), static_cast<std::uint64_t>(args.batch.num_sequences)},
          .stride_bytes = {bytes(args.dense.head_stride), bytes(args.dense.token_stride), bytes(args.dense.sequence_stride)},
          .box = {64, 1, static_cast<std::uint32_t>(keys), 1}};
}

/// Other pages than those of F16 or BF16 are dequantised first, in parts of this many bytes, or one sequence.
constexpr std::int64_t unpacked_bytes_at_once = std::int64_t{256} << 20;

/// Bytes of K and V of a sequence of up to `kv_len` keys as 16-bit numbers.
std::int64_t unpacked_bytes(const Attention::Spec& spec, std::int64_t kv_len) {
  return 2 * 2 * std::max<std::int64_t>(kv_len, 1) * spec.kv_heads * spec.head_dim;
}

/// Whether the products read the pages as they are.
bool reads_pages(const Attention::Spec& spec) { return spec.kv_dtype == DType::f16 || spec.kv_dtype == DType::bf16; }

/// The type of the products' operands.
DType product_type(const Attention::Spec& spec) {
  const bool bf16 = spec.kv_dtype.k == DType::bf16 || spec.kv_dtype.v == DType::bf16 || spec.io_dtype == DType::bf16;
  return reads_pages(spec) ? spec.kv_dtype.k : bf16 ? DType::bf16 : DType::f16;
}

/// Whether scores need more than a factor.
bool is_special(const Attention::Spec& spec) { return spec.soft_cap > 0.0f || spec.mask; }

/// Attention::Rows as a number for the kernels.
std::int32_t rows_code(Attention::Rows rows) {
  return rows == Attention::Rows::all ? 0 : rows == Attention::Rows::single ? 1 : 2;
}

/// `args` for `count` sequences from `first` on, K and V dense in the workspace.
Attention::Args part_of(const Attention::Spec& spec, const Attention::Args& args, std::int32_t first, std::int32_t count) {
  Attention::Args part = args;
  part.batch.num_sequences = count;
  part.batch.max_kv_len = std::max(1, args.batch.max_kv_len);
  part.batch.query_offsets += first;
  part.batch.kv_lengths += first;
  const std::int64_t head_elems = std::int64_t{part.batch.max_kv_len} * spec.head_dim;
  part.dense = {.k = args.workspace,
                .v = static_cast<std::uint16_t*>(args.workspace) + count * spec.kv_heads * head_elems,
                .sequence_stride = spec.kv_heads * head_elems,
                .token_stride = spec.head_dim,
                .head_stride = head_elems};
  return part;
}

class HopperAttentionPrefill final : public AttentionBackend {
 public:
  [[nodiscard]] std::string_view name() const override { return "hopper_prefill"; }
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
    if (spec.most_rows > 0) {
      return Support::no("a tile of 128 query rows is wasted on few rows");
    }
    if (spec.head_dim % 8 != 0 || spec.head_dim > most_head_dim) {
      return Support::no(fmt::format("head_dim {} is not a multiple of 8 up to {}", spec.head_dim, most_head_dim));
    }
    if (is_special(spec) && spec.head_dim > most_special_head_dim) {
      return Support::no(
          fmt::format("head_dim {} is more than {}, with a soft-cap or a mask", spec.head_dim, most_special_head_dim));
    }
    if (spec.kv_dtype.k == DType::f32 || spec.kv_dtype.v == DType::f32) {
      return Support::no(fmt::format("KV of {}: the products take F16 and BF16", rocmforge::name(spec.kv_dtype)));
    }
    if (spec.io_dtype != DType::f32 && spec.io_dtype != product_type(spec)) {
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

  [[nodiscard]] std::size_t workspace_bytes(const Attention::Spec& spec, const AttentionLimits& limits) const override {
    if (reads_pages(spec)) {
      return 0;
    }
    const std::int64_t one = unpacked_bytes(spec, limits.max_kv_len);
    return static_cast<std::size_t>(
        std::min(one * std::max<std::int64_t>(limits.max_sequences, 1), std::max(one, unpacked_bytes_at_once)));
  }
  [[nodiscard]] std::size_t state_bytes(const Attention::Spec&, const AttentionLimits&) const override {
    return 2 * sizeof(std::uint32_t);
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
    check(args.state != nullptr, "attention: state is null");
    if (reads_pages(spec)) {
      attend(spec, layout, args, context);
      return;
    }
    check(args.workspace != nullptr, "attention: workspace is null");
    Attention::Spec products = spec;
    products.kv_dtype = product_type(spec);
    const std::int64_t fitting = unpacked_bytes_at_once / unpacked_bytes(spec, args.batch.max_kv_len);
    const auto at_once = static_cast<std::int32_t>(std::clamp<std::int64_t>(fitting, 1, most_sequences_at_once));
    for (std::int32_t first = 0; first < args.batch.num_sequences; first += at_once) {
      const std::int32_t count = std::min(at_once, args.batch.num_sequences - first);
      const Attention::Args part = part_of(spec, args, first, count);
      unpack(products, layout, part, first, context);
      attend(products, layout, part, context);
    }
    gpu::turn_output_back(spec, args, *context.stream);
  }

 private:
  static constexpr std::int64_t most_sequences_at_once = 32768;

  /// Dequantises the keys and values of the part's sequences from pages to dense tensors.
  static void unpack(const Attention::Spec& spec, const KvLayout& layout, const Attention::Args& part, std::int32_t first,
                     ExecutionContext& context) {
    const RaggedBatch& batch = part.batch;
    hopper::AttentionUnpackArgs args{};
    args.pages = part.cache.data;
    args.block_stride = static_cast<std::int64_t>(layout.block_bytes());
    args.head_stride = static_cast<std::int64_t>(layout.head_bytes());
    args.k = const_cast<void*>(part.dense.k);
    args.v = const_cast<void*>(part.dense.v);
    args.query_offsets = batch.query_offsets;
    args.kv_lengths = batch.kv_lengths;
    args.block_tables = batch.block_tables + std::int64_t{first} * batch.max_blocks;
    args.max_blocks = batch.max_blocks;
    args.block_shift = std::countr_zero(static_cast<std::uint32_t>(layout.block_tokens));
    args.capacity = batch.max_kv_len;
    args.kv_heads = spec.kv_heads;
    args.head_dim = spec.head_dim;
    args.window = spec.window;
    args.tile_keys = variant_of(spec.head_dim).keys;
    args.rows = rows_code(part.rows);
    LaunchShape shape;
    shape.grid = {static_cast<std::uint32_t>((batch.max_kv_len + hopper::unpack_keys - 1) / hopper::unpack_keys),
                  static_cast<std::uint32_t>(2 * spec.kv_heads), static_cast<std::uint32_t>(batch.num_sequences)};
    shape.block[0] = hopper::unpack_threads;
    if (!gpu::uses_coded_pages(layout.dtype)) {
      kernel_of(unpack_kernels, spec.kv_dtype.k).launch(*context.stream, shape, args);
      return;
    }
    kernel_of(unpack_coded_kernels, spec.kv_dtype.k)
        .launch(*context.stream, shape, {args, gpu::coded_pages(layout, part.cache, args.block_tables, batch.max_blocks)});
  }

  static void attend(const Attention::Spec& spec, const KvLayout& layout, const Attention::Args& args,
                     ExecutionContext& context) {
    const RaggedBatch& batch = args.batch;
    const Variant variant = variant_of(spec.head_dim);
    const bool dense = args.dense.k != nullptr;
    Driver& driver = context.stream->device().driver();

    AttentionPrefillArgs kernel_args{};
    if (dense) {
      kernel_args.k = driver.tensor_map(dense_boxes(spec, args, args.dense.k, variant.keys));
      kernel_args.v = driver.tensor_map(dense_boxes(spec, args, args.dense.v, variant.keys));
    } else {
      kernel_args.k = driver.tensor_map(paged_boxes(layout, args.cache, variant.keys));
      kernel_args.v = kernel_args.k;
    }
    kernel_args.q = args.q;
    kernel_args.q_stride = args.q_stride;
    kernel_args.out = args.out;
    kernel_args.query_offsets = batch.query_offsets;
    kernel_args.kv_lengths = batch.kv_lengths;
    kernel_args.block_tables = dense ? nullptr : batch.block_tables;
    kernel_args.taken = static_cast<std::uint32_t*>(args.state);
    kernel_args.sinks = spec.sinks ? args.sinks : nullptr;
    kernel_args.mask = spec.mask ? args.mask : nullptr;
    kernel_args.mask_stride = args.mask_stride;
    kernel_args.max_blocks = batch.max_blocks;
    kernel_args.block_shift = std::countr_zero(static_cast<std::uint32_t>(layout.block_tokens));
    kernel_args.num_sequences = batch.num_sequences;
    kernel_args.max_q_tiles = (batch.max_q_len + variant.rows() - 1) / variant.rows();
    const std::int64_t kv_head_bytes = std::int64_t{batch.max_kv_len} * spec.head_dim * 2 * 2;
    const std::int64_t kv_heads_at_once =
        std::max<std::int64_t>(1, section_bytes / std::max<std::int64_t>(1, kv_head_bytes));
    const std::int64_t all_heads = std::int64_t{spec.q_heads} * batch.num_sequences;
    kernel_args.section_heads =
        static_cast<std::int32_t>(std::min(all_heads, kv_heads_at_once * (spec.q_heads / spec.kv_heads)));
    kernel_args.q_heads = spec.q_heads;
    kernel_args.kv_heads = spec.kv_heads;
    kernel_args.head_dim = spec.head_dim;
    kernel_args.causal = spec.causal ? 1 : 0;
    kernel_args.window = spec.window;
    kernel_args.rows = rows_code(args.rows);
    kernel_args.q_aligned = is_aligned(args.q, row_bytes(spec.io_dtype, args.q_stride)) ? 1 : 0;
    kernel_args.box_tokens = dense ? 0 : std::gcd(layout.block_tokens, variant.keys);
    kernel_args.q_bulk = spec.io_dtype == spec.kv_dtype && kernel_args.q_aligned != 0 ? 1 : 0;
    if (kernel_args.q_bulk != 0) {
      kernel_args.q_map = driver.tensor_map(query_boxes(spec, args));
    }
    kernel_args.io = io_type(spec.io_dtype);
    kernel_args.scale = attention_scale(spec);
    kernel_args.soft_cap = spec.soft_cap;

    const std::int64_t work = std::int64_t{kernel_args.max_q_tiles} * spec.q_heads * batch.num_sequences;
    if (work == 0) {
      return;
    }
    LaunchShape shape;
    shape.grid[0] = static_cast<std::uint32_t>(std::min<std::int64_t>(work, context.stream->device().info().compute_units));
    shape.block[0] = static_cast<std::uint32_t>(variant.consumers + 1) * 128;
    shape.shared_bytes = static_cast<std::uint32_t>(hopper::prefill::shared_bytes(variant));
    const PrefillForm form{spec.kv_dtype.k, variant.padded, is_special(spec)};
    kernel_of(prefill_kernels, form).launch(*context.stream, shape, kernel_args);
  }
};

}  // namespace

std::unique_ptr<AttentionBackend> make_hopper_attention_prefill() { return std::make_unique<HopperAttentionPrefill>(); }

}  // namespace rocmforge
