#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <numbers>

#include "base/math.h"
#include "kernels/attention/hopper/latent_decode_args.h"
#include "kernels/attention/kernels.h"
#include "kernels/check/arguments/arguments.h"
#include "kernels/launch/hopper/architecture.h"
#include "kernels/launch/kernel_table.h"

namespace rocmforge {
namespace {

using hopper::LatentDecodeArgs;

/// What a kernel of latent_decode.cu is compiled for: the type of the rows, and their elements.
struct LatentForm {
  DType type;
  std::int32_t dims;

  friend constexpr bool operator==(const LatentForm&, const LatentForm&) = default;
};
constexpr FormKernel<LatentForm, LatentDecodeArgs> latent_kernels[] = {
    {{DType::f16, 576}, {"latent_decode", "latent_decode_f16_576", LaunchOrder::by_kernel}},
    {{DType::f16, 320}, {"latent_decode", "latent_decode_f16_320", LaunchOrder::by_kernel}},
    {{DType::bf16, 576}, {"latent_decode", "latent_decode_bf16_576", LaunchOrder::by_kernel}},
    {{DType::bf16, 320}, {"latent_decode", "latent_decode_bf16_320", LaunchOrder::by_kernel}},
};
/// By the elements of a value: one warp, or a work-group, adds up the pieces of a head.
constexpr FormKernel<std::int32_t, LatentDecodeArgs> merge_few_kernels[] = {
    {512, {"latent_decode", "latent_merge_few_512", LaunchOrder::by_kernel}},
    {256, {"latent_decode", "latent_merge_few_256", LaunchOrder::by_kernel}},
};
constexpr FormKernel<std::int32_t, LatentDecodeArgs> merge_kernels[] = {
    {512, {"latent_decode", "latent_merge_512", LaunchOrder::by_kernel}},
    {256, {"latent_decode", "latent_merge_256", LaunchOrder::by_kernel}},
};

/// Floats of the parts of one sequence's pieces.
std::int64_t sequence_floats(const Attention::Spec& spec, std::int32_t pieces) {
  return std::int64_t{pieces} * spec.q_heads * (spec.value_dim + 2);
}

/// Sequences of one launch, so that their parts stay within 128 MiB.
std::int64_t sequences_of_a_launch(const Attention::Spec& spec, std::int64_t sequences, std::int32_t pieces) {
  constexpr std::int64_t most_floats = std::int64_t{32} << 20;
  return std::clamp<std::int64_t>(most_floats / sequence_floats(spec, pieces), 1, std::max<std::int64_t>(sequences, 1));
}

/// "hopper_latent": one query row a sequence over a latent plane.
class HopperLatentDecode final : public AttentionBackend {
 public:
  [[nodiscard]] std::string_view name() const override { return "hopper_latent"; }
  [[nodiscard]] DeviceKind device() const override { return DeviceKind::cuda; }
  [[nodiscard]] KernelPriority priority() const override { return KernelPriority::architecture; }

  [[nodiscard]] Support supports(const Attention::Spec& spec, const DeviceInfo& device) const override {
    if (Support general = check_spec(spec); !general.ok) {
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
    if (!spec.has_single_rows() || spec.value_dim == 0 || spec.kv_heads != 1) {
      return Support::no("for steps of one query row a sequence over a latent plane");
    }
    if (!(spec.head_dim == 576 && spec.value_dim == 512) && !(spec.head_dim == 320 && spec.value_dim == 256)) {
      return Support::no(
          fmt::format("rows of {} with values of {}, not 576 with 512 or 320 with 256", spec.head_dim, spec.value_dim));
    }
    if (spec.kv_dtype != DType::f16 && spec.kv_dtype != DType::bf16) {
      return Support::no(fmt::format("KV of {} is not F16 or BF16", rocmforge::name(spec.kv_dtype)));
    }
    if (spec.io_dtype != DType::f32 || spec.mask || spec.sinks || spec.window > 0 || spec.soft_cap > 0.0f) {
      return Support::no("q that is not F32, a mask, sinks, a window or a soft-cap");
    }
    return Support::yes();
  }

  [[nodiscard]] KvLayout layout(const Attention::Spec& spec) const override {
    return {.dtype = spec.kv_dtype,
            .block_tokens = 64,
            .kv_heads = spec.kv_heads,
            .head_dim = spec.head_dim,
            .value_dim = spec.value_dim};
  }

  [[nodiscard]] std::size_t workspace_bytes(const Attention::Spec& spec, const AttentionLimits& limits) const override {
    const std::int32_t pieces = most_pieces(limits.max_kv_len > 0 ? limits.max_kv_len : most_keys);
    const std::int64_t most = std::max<std::int64_t>(limits.max_sequences, 1);
    // With fewer pieces a launch takes more sequences, but their parts stay within the same bound.
    const std::int64_t sequences = std::min(sequences_of_a_launch(spec, most, pieces) + 1, most);
    return static_cast<std::size_t>(sequences * sequence_floats(spec, pieces)) * sizeof(float);
  }

  void run(const Attention::Spec& spec, const KvLayout& layout, const Attention::Args& args,
           ExecutionContext& context) const override {
    check_arguments(spec, layout, args, device());
    check(layout.k_order == KvOrder::token_major, "attention: this backend reads K by token");
    check(args.workspace != nullptr, "attention: workspace is null");
    check(reinterpret_cast<std::uintptr_t>(args.out) % 16 == 0,
          "attention: out of this backend begins at a multiple of 16 bytes");
    const bool aligned = reinterpret_cast<std::uintptr_t>(args.q) % 16 == 0 && args.q_stride % 4 == 0;
    const RaggedBatch& batch = args.batch;
    if (batch.num_sequences == 0 || args.rows == Attention::Rows::several) {
      return;
    }
    const std::int32_t pieces = most_pieces(std::max<std::int64_t>(batch.max_kv_len, 1));
    const std::int64_t at_once = sequences_of_a_launch(spec, batch.num_sequences, pieces);
    LatentDecodeArgs own{.q = static_cast<const float*>(args.q),
                         .out = static_cast<float*>(args.out),
                         .plane = args.cache.data,
                         .block_tables = batch.block_tables,
                         .query_offsets = batch.query_offsets,
                         .kv_lengths = batch.kv_lengths,
                         .sums = static_cast<float*>(args.workspace),
                         .states = static_cast<float*>(args.workspace) + at_once * pieces * spec.q_heads * spec.value_dim,
                         .q_stride = args.q_stride,
                         .block_elems = layout.block_elems(),
                         .max_blocks = batch.max_blocks,
                         .block_shift = std::countr_zero(static_cast<std::uint32_t>(layout.block_tokens)),
                         .q_heads = spec.q_heads,
                         .first_sequence = 0,
                         .pieces = pieces,
                         .q_aligned = aligned ? 1 : 0,
                         .scale_log2 = attention_scale(spec) * std::numbers::log2e_v<float>};
    for (std::int64_t first = 0; first < batch.num_sequences; first += at_once) {
      own.first_sequence = static_cast<std::int32_t>(first);
      launch(spec, own, std::min<std::int64_t>(at_once, batch.num_sequences - first), *context.stream);
    }
  }

 private:
  static constexpr std::int64_t most_keys = std::int64_t{1} << 30;
  static std::int32_t most_pieces(std::int64_t keys) {
    return hopper::most_latent_pieces(static_cast<std::int32_t>(std::min(keys, most_keys)));
  }

  static void launch(const Attention::Spec& spec, const LatentDecodeArgs& args, std::int64_t sequences, Stream& stream) {
    LaunchShape decode;
    decode.grid = {static_cast<std::uint32_t>(args.pieces),
                   static_cast<std::uint32_t>(divide_up(spec.q_heads, hopper::latent_tile_heads(spec.head_dim))),
                   static_cast<std::uint32_t>(sequences)};
    decode.block[0] = hopper::latent_decode_warps * 32;
    decode.shared_bytes = static_cast<std::uint32_t>(hopper::latent_decode_shared(spec.head_dim).bytes);
    const LatentForm form{spec.kv_dtype.k, spec.head_dim};
    kernel_of(latent_kernels, form).launch(stream, decode, args);
    // A work-group for each run of values ends soonest while all of them run at once: four fit on a multiprocessor.
    const std::int64_t runs = std::int64_t{spec.q_heads} * spec.value_dim / hopper::latent_merge_values;
    const bool few = args.pieces <= hopper::most_few_latent_pieces &&
                     runs * sequences > std::int64_t{4} * stream.device().info().compute_units;
    LaunchShape merge;
    merge.grid = {static_cast<std::uint32_t>(few ? divide_up(runs, hopper::latent_merge_threads / 32) : runs),
                  static_cast<std::uint32_t>(sequences), 1};
    merge.block[0] = hopper::latent_merge_threads;
    kernel_of(few ? merge_few_kernels : merge_kernels, spec.value_dim).launch(stream, merge, args);
  }
};

}  // namespace

std::unique_ptr<AttentionBackend> make_hopper_latent_decode() { return std::make_unique<HopperLatentDecode>(); }

}  // namespace rocmforge
