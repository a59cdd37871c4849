#include <fmt/format.h>

#include <algorithm>

#include "kernels/attention/kernels.h"
#include "kernels/attention/portable/attention_launch.h"

namespace rocmforge {
namespace {

using PagedKernel = Kernel<gpu::AttentionArgs>;

/// Kernels for head_dim up to 64, 128, 256 and 512, and for 1, 4 and 8 query heads at once (at 512 for 4 alone).
struct PagedKernels {
  PagedKernel by_shape[4][3];
};
constexpr PagedKernels f16_kernels{
    {{{"paged", "paged_f16_64_1"}, {"paged", "paged_f16_64_4"}, {"paged", "paged_f16_64_8"}},
     {{"paged", "paged_f16_128_1"}, {"paged", "paged_f16_128_4"}, {"paged", "paged_f16_128_8"}},
     {{"paged", "paged_f16_256_1"}, {"paged", "paged_f16_256_4"}, {"paged", "paged_f16_256_8"}},
     {{"paged", "paged_f16_512_4"}, {"paged", "paged_f16_512_4"}, {"paged", "paged_f16_512_4"}}}};
constexpr PagedKernels bf16_kernels{
    {{{"paged", "paged_bf16_64_1"}, {"paged", "paged_bf16_64_4"}, {"paged", "paged_bf16_64_8"}},
     {{"paged", "paged_bf16_128_1"}, {"paged", "paged_bf16_128_4"}, {"paged", "paged_bf16_128_8"}},
     {{"paged", "paged_bf16_256_1"}, {"paged", "paged_bf16_256_4"}, {"paged", "paged_bf16_256_8"}},
     {{"paged", "paged_bf16_512_4"}, {"paged", "paged_bf16_512_4"}, {"paged", "paged_bf16_512_4"}}}};
constexpr PagedKernels f32_kernels{
    {{{"paged", "paged_f32_64_1"}, {"paged", "paged_f32_64_4"}, {"paged", "paged_f32_64_8"}},
     {{"paged", "paged_f32_128_1"}, {"paged", "paged_f32_128_4"}, {"paged", "paged_f32_128_8"}},
     {{"paged", "paged_f32_256_1"}, {"paged", "paged_f32_256_4"}, {"paged", "paged_f32_256_8"}},
     {{"paged", "paged_f32_512_4"}, {"paged", "paged_f32_512_4"}, {"paged", "paged_f32_512_4"}}}};

constexpr PagedKernels q8_0_kernels{
    {{{"paged", "paged_q8_0_64_1"}, {"paged", "paged_q8_0_64_4"}, {"paged", "paged_q8_0_64_8"}},
     {{"paged", "paged_q8_0_128_1"}, {"paged", "paged_q8_0_128_4"}, {"paged", "paged_q8_0_128_8"}},
     {{"paged", "paged_q8_0_256_1"}, {"paged", "paged_q8_0_256_4"}, {"paged", "paged_q8_0_256_8"}},
     {{"paged", "paged_q8_0_512_4"}, {"paged", "paged_q8_0_512_4"}, {"paged", "paged_q8_0_512_4"}}}};

/// Of rows that see further than themselves, for head_dim up to 64, 128, 256 and 512, four query heads at once.
using SpanKernel = Kernel<gpu::SpanAttentionArgs>;
struct PagedSpanKernels {
  DType dtype;
  SpanKernel by_dims[4];
};
constexpr PagedSpanKernels paged_span_kernels[] = {{DType::f16,
                                                    {{"paged_spans", "paged_spans_f16_64"},
                                                     {"paged_spans", "paged_spans_f16_128"},
                                                     {"paged_spans", "paged_spans_f16_256"},
                                                     {"paged_spans", "paged_spans_f16_512"}}},
                                                   {DType::bf16,
                                                    {{"paged_spans", "paged_spans_bf16_64"},
                                                     {"paged_spans", "paged_spans_bf16_128"},
                                                     {"paged_spans", "paged_spans_bf16_256"},
                                                     {"paged_spans", "paged_spans_bf16_512"}}},
                                                   {DType::f32,
                                                    {{"paged_spans", "paged_spans_f32_64"},
                                                     {"paged_spans", "paged_spans_f32_128"},
                                                     {"paged_spans", "paged_spans_f32_256"},
                                                     {"paged_spans", "paged_spans_f32_512"}}},
                                                   {DType::q8_0,
                                                    {{"paged_spans", "paged_spans_q8_0_64"},
                                                     {"paged_spans", "paged_spans_q8_0_128"},
                                                     {"paged_spans", "paged_spans_q8_0_256"},
                                                     {"paged_spans", "paged_spans_q8_0_512"}}}};

/// For pages of any type (CodedPages), whether rows see further than themselves or not.
using CodedKernel = Kernel<gpu::CodedAttentionArgs>;
constexpr CodedKernel coded_kernels[4][3] = {
    {{"paged_coded", "paged_coded_64_1"}, {"paged_coded", "paged_coded_64_4"}, {"paged_coded", "paged_coded_64_8"}},
    {{"paged_coded", "paged_coded_128_1"}, {"paged_coded", "paged_coded_128_4"}, {"paged_coded", "paged_coded_128_8"}},
    {{"paged_coded", "paged_coded_256_1"}, {"paged_coded", "paged_coded_256_4"}, {"paged_coded", "paged_coded_256_8"}},
    {{"paged_coded", "paged_coded_512_4"}, {"paged_coded", "paged_coded_512_4"}, {"paged_coded", "paged_coded_512_4"}}};

constexpr PagedKernel latent_kernels[] = {
    {"latent", "latent_f16"}, {"latent", "latent_bf16"}, {"latent", "latent_f32"}, {"latent", "latent_q8_0"}};

/// How a spec's query heads are spread over work-groups.
struct Grouping {
  int index;           ///< into PagedKernels, but for a latent plane
  std::int32_t heads;  ///< query heads of a work-group, at most
  std::int32_t tiles;  ///< work-groups for the query heads of one KV head
};
Grouping grouping(const Attention::Spec& spec) {
  const std::int32_t group = spec.q_heads / spec.kv_heads;
  if (spec.value_dim > 0) {
    return {0, gpu::latent_group, (group + gpu::latent_group - 1) / gpu::latent_group};
  }
  if (spec.head_dim > 256 || spec.spans) {
    return {1, 4, (group + 3) / 4};
  }
  if (group == 1) {
    return {0, 1, 1};
  }
  return group <= 4 ? Grouping{1, 4, 1} : Grouping{2, 8, (group + 7) / 8};
}

/// Of the kernels for head_dim up to 64, 128, 256 and 512.
int index_of_dims(std::int32_t head_dim) { return head_dim <= 64 ? 0 : head_dim <= 128 ? 1 : head_dim <= 256 ? 2 : 3; }

const SpanKernel& find_span_kernel(const Attention::Spec& spec) {
  return std::ranges::find(paged_span_kernels, spec.kv_dtype.k, &PagedSpanKernels::dtype)
      ->by_dims[index_of_dims(spec.head_dim)];
}

const PagedKernel& find_kernel(const Attention::Spec& spec) {
  if (spec.value_dim > 0) {
    const int index = spec.kv_dtype == DType::f16    ? 0
                      : spec.kv_dtype == DType::bf16 ? 1
                      : spec.kv_dtype == DType::f32  ? 2
                                                     : 3;
    return latent_kernels[index];
  }
  const PagedKernels& kernels = spec.kv_dtype == DType::f16    ? f16_kernels
                                : spec.kv_dtype == DType::bf16 ? bf16_kernels
                                : spec.kv_dtype == DType::q8_0 ? q8_0_kernels
                                                               : f32_kernels;
  return kernels.by_shape[index_of_dims(spec.head_dim)][grouping(spec).index];
}

std::int32_t splits_for(std::int64_t kv_len) {
  return static_cast<std::int32_t>(std::clamp<std::int64_t>(divide_up(kv_len, gpu::split_keys), 1, gpu::max_splits));
}

/// Partial sums and states of one item, which is a row or a sequence of one row.
std::int64_t floats_of_item(const Attention::Spec& spec, std::int32_t splits) {
  const Grouping group = grouping(spec);
  return std::int64_t{spec.kv_heads} * group.tiles * splits * group.heads * (spec.out_dim() + 2);
}

/// Items of one launch, so that their parts stay within 128 MiB.
std::int64_t items_at_once_of(const Attention::Spec& spec, std::int64_t items, std::int32_t splits) {
  constexpr std::int64_t most_floats = std::int64_t{32} << 20;
  return std::clamp<std::int64_t>(most_floats / floats_of_item(spec, splits), 1, std::max<std::int64_t>(items, 1));
}

/// Waves of a work-group: of a latent plane as many as it has heads for.
std::int32_t waves_of(const Attention::Spec& spec) {
  const std::int32_t heads = std::min(spec.q_heads / spec.kv_heads, gpu::latent_group);
  return spec.value_dim > 0 ? (heads + gpu::latent_wave_heads - 1) / gpu::latent_wave_heads : 4;
}

/// Rows of any step; `decode_only` makes it the first choice for steps of few rows a sequence and refuses others. The rows
/// of a sequence are computed one by one, each as a decode step computes it, and with the same bits.
class PagedAttention : public gpu::GpuAttention {
 public:
  PagedAttention(DeviceKind kind, bool decode_only) : GpuAttention(kind), decode_only_(decode_only) {}
  [[nodiscard]] std::string_view name() const override { return decode_only_ ? "paged" : "paged_rows"; }
  [[nodiscard]] KernelPriority priority() const override {
    return decode_only_ ? KernelPriority::specialised : KernelPriority::last_resort;
  }

  [[nodiscard]] Support supports(const Attention::Spec& spec, const DeviceInfo&) const override {
    if (Support support = check_separate_values(spec); !support.ok) {
      return support;
    }
    if (spec.head_dim % 8 != 0 || spec.head_dim > 512) {
      return Support::no(fmt::format("head_dim {} is not a multiple of 8 up to 512", spec.head_dim));
    }
    if (Support support = gpu::check_coded_types(spec.kv_dtype); !support.ok) {
      return support;
    }
    if (decode_only_ && spec.most_rows == 0) {
      return Support::no("for steps of at most 8 query rows a sequence; paged_rows takes any");
    }
    return Support::yes();
  }

  [[nodiscard]] std::size_t workspace_bytes(const Attention::Spec& spec, const AttentionLimits& limits) const override {
    const std::int32_t splits = limits.max_kv_len > 0 ? splits_for(limits.max_kv_len) : gpu::max_splits;
    const std::int64_t most_items = std::max<std::int64_t>({limits.max_tokens, limits.max_sequences, 1});
    // With fewer splits a launch takes more items, but their parts stay within the same bound.
    const std::int64_t items = items_at_once_of(spec, most_items, splits);
    const std::int64_t all = most_items * floats_of_item(spec, splits);
    return static_cast<std::size_t>(std::min(all, (items + 1) * floats_of_item(spec, splits))) * sizeof(float);
  }

  [[nodiscard]] std::size_t state_bytes(const Attention::Spec& spec, const AttentionLimits& limits) const override {
    const std::int64_t items = std::max<std::int64_t>({limits.max_tokens, limits.max_sequences, 1});
    return static_cast<std::size_t>(items * spec.kv_heads * grouping(spec).tiles) * sizeof(std::uint32_t);
  }

  void run(const Attention::Spec& spec, const KvLayout& layout, const Attention::Args& args,
           ExecutionContext& context) const override {
    gpu::AttentionArgs kernel_args = attention_args(spec, layout, args);
    const bool coded = gpu::uses_coded_pages(spec.kv_dtype);
    if (!coded) {
      gpu::check_vector_loads(kernel_args.kv, spec.kv_dtype.k);
    }
    const bool by_sequence = spec.has_single_rows() || args.rows == Attention::Rows::single;
    check(by_sequence || args.batch.sequence_of != nullptr, "attention: batch.sequence_of is null");
    check(args.workspace != nullptr, "attention: workspace is null");
    check(args.state != nullptr, "attention: state is null");
    if (args.batch.num_tokens == 0) {
      return;
    }
    const Grouping group = grouping(spec);
    const std::int32_t splits = splits_for(args.batch.max_kv_len);
    const std::int64_t items = by_sequence ? args.batch.num_sequences : args.batch.num_tokens;
    const std::int64_t items_at_once = items_at_once_of(spec, items, splits);
    const std::int64_t parts = items_at_once * spec.kv_heads * group.tiles * splits * group.heads;
    kernel_args.partial_sums = static_cast<float*>(args.workspace);
    kernel_args.partial_states = kernel_args.partial_sums + parts * spec.out_dim();
    kernel_args.counters = static_cast<std::uint32_t*>(args.state);
    kernel_args.group_tiles = group.tiles;
    kernel_args.by_sequence = by_sequence ? 1 : 0;
    LaunchShape shape;
    shape.block[0] = static_cast<std::uint32_t>(waves_of(spec) * context.stream->device().info().wave_size);
    shape.grid[1] = static_cast<std::uint32_t>(spec.kv_heads * group.tiles);
    shape.grid[2] = static_cast<std::uint32_t>(splits);
    for (std::int64_t first = 0; first < items; first += items_at_once) {
      kernel_args.first_item = static_cast<std::int32_t>(first);
      shape.grid[0] = static_cast<std::uint32_t>(std::min(items_at_once, items - first));
      if (coded) {
        const RaggedBatch& batch = args.batch;
        const gpu::CodedPages pages = gpu::coded_pages(layout, args.cache, batch.block_tables, batch.max_blocks);
        coded_kernels[index_of_dims(spec.head_dim)][group.index].launch(
            *context.stream, shape, {kernel_args, pages, spec.spans ? batch.visible_end : nullptr});
      } else if (spec.spans) {
        find_span_kernel(spec).launch(*context.stream, shape, {kernel_args, args.batch.visible_end});
      } else {
        find_kernel(spec).launch(*context.stream, shape, kernel_args);
      }
    }
    gpu::turn_output_back(spec, args, *context.stream);
  }

 private:
  bool decode_only_;
};

/// A latent plane: any rows, in the same work-groups and pieces.
class LatentAttention final : public PagedAttention {
 public:
  explicit LatentAttention(DeviceKind kind) : PagedAttention(kind, false) {}
  [[nodiscard]] std::string_view name() const override { return "latent"; }
  [[nodiscard]] KernelPriority priority() const override { return KernelPriority::portable; }

  [[nodiscard]] Support supports(const Attention::Spec& spec, const DeviceInfo&) const override {
    return gpu::check_latent_plane(spec);
  }
};

}  // namespace

std::unique_ptr<AttentionBackend> make_gpu_paged_attention(DeviceKind kind) {
  return std::make_unique<PagedAttention>(kind, true);
}

std::unique_ptr<AttentionBackend> make_gpu_paged_rows_attention(DeviceKind kind) {
  return std::make_unique<PagedAttention>(kind, false);
}

std::unique_ptr<AttentionBackend> make_gpu_latent_attention(DeviceKind kind) {
  return std::make_unique<LatentAttention>(kind);
}

}  // namespace rocmforge
