#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "kernels/attention/kernels.h"
#include "kernels/attention/portable/latent_args.h"
#include "kernels/launch/gpu_kernel.h"
#include "kernels/matmul/portable/format_kernels.h"
#include "kernels/matmul/portable/matmul_args.h"

namespace rocmforge {
namespace {

constexpr Kernel<gpu::LatentAppendArgs> append_f32{"latent", "latent_append_f32", LaunchOrder::by_kernel};
constexpr Kernel<gpu::LatentAppendArgs> append_f16{"latent", "latent_append_f16", LaunchOrder::by_kernel};
constexpr Kernel<gpu::LatentAppendArgs> append_bf16{"latent", "latent_append_bf16", LaunchOrder::by_kernel};
constexpr Kernel<gpu::LatentAppendArgs> append_q8_0{"latent", "latent_append_q8_0", LaunchOrder::by_kernel};

const Kernel<gpu::LatentAppendArgs>& append_kernel(DType cache) {
  return cache == DType::f16    ? append_f16
         : cache == DType::bf16 ? append_bf16
         : cache == DType::q8_0 ? append_q8_0
                                : append_f32;
}

std::int32_t pairs_of(const LatentAppend::Spec& spec) { return spec.kind == RopeKind::none ? 0 : spec.n_rot / 2; }

std::int64_t append_shared_bytes(const LatentAppend::Spec& spec) {
  return gpu::turn_shared_bytes(pairs_of(spec), spec.layout.head_dim);
}

class GpuLatentAppend final : public GpuKernel<OpKernel<LatentAppend>> {
 public:
  using GpuKernel::GpuKernel;

  [[nodiscard]] Support supports(const LatentAppend::Spec& spec, const DeviceInfo&) const override {
    if (Support support = check_spec(spec); !support.ok) {
      return support;
    }
    constexpr std::int64_t shared_limit = 48 << 10;  // every device gives a work-group that much
    if (append_shared_bytes(spec) > shared_limit) {
      return Support::no(
          fmt::format("a row of {} takes more than {} bytes of shared memory", spec.layout.head_dim, shared_limit));
    }
    if (spec.layout.k_order != KvOrder::token_major) {
      return Support::no("latent rows that do not lie side by side");
    }
    return Support::yes();
  }

  void run(const LatentAppend::Spec& spec, const LatentAppend::Args& args, ExecutionContext& context) const override {
    check_arguments(spec, args, device());
    if (args.batch.num_tokens == 0) {
      return;
    }
    const KvLayout& layout = spec.layout;
    LaunchShape shape;
    shape.grid[0] = static_cast<std::uint32_t>(args.batch.num_tokens);
    shape.block[0] = gpu::latent_append_threads;
    shape.shared_bytes = static_cast<std::uint32_t>(append_shared_bytes(spec));
    const bool in_bytes = layout.dtype == DType::q8_0;
    append_kernel(layout.dtype.k)
        .launch(*context.stream, shape,
                {.q = args.q,
                 .kv = args.kv,
                 .norm = args.norm,
                 .inverse_frequency = args.inverse_frequency,
                 .cache = args.cache.data,
                 .positions = args.batch.positions,
                 .sequence_of = args.batch.sequence_of,
                 .kv_lengths = args.batch.kv_lengths,
                 .block_tables = args.batch.block_tables,
                 .query_offsets = args.batch.query_offsets,
                 .q_stride = args.q_stride,
                 .kv_stride = args.kv_stride,
                 .block_elems = in_bytes ? static_cast<std::int64_t>(layout.block_bytes()) : layout.block_elems(),
                 .q_heads = spec.q_heads,
                 .q_dim = spec.q_dim,
                 .rank = layout.value_dim,
                 .head_dim = layout.head_dim,
                 .pairs = pairs_of(spec),
                 .max_blocks = args.batch.max_blocks,
                 .block_shift = std::countr_zero(static_cast<std::uint32_t>(layout.block_tokens)),
                 .adjacent = spec.kind == RopeKind::adjacent ? 1 : 0,
                 .norm_eps = spec.norm_eps,
                 .magnitude = spec.magnitude,
                 .temperature_scale = spec.temperature_scale,
                 .temperature_length = std::max(spec.temperature_length, 1)});
  }
};

struct HeadFormat {
  DType dtype;
  int few_rows;
  Kernel<gpu::HeadProductArgs> groups;
  Kernel<gpu::HeadProductArgs> of_one;  ///< of one token
};

struct HeadTileFormat {
  DType dtype;
  Kernel<gpu::HeadProductArgs> kernel;
};

#define ROCMFORGE_HEAD_FORMAT(format, Block, Element, rows)               \
  HeadFormat{DType::format,                                               \
             rows,                                                        \
             {"heads", "head_products_" #format, LaunchOrder::by_kernel}, \
             {"heads", "head_product_" #format, LaunchOrder::by_kernel}},
constexpr HeadFormat head_formats[] = {ROCMFORGE_MATMUL_FORMATS(ROCMFORGE_HEAD_FORMAT)};
#undef ROCMFORGE_HEAD_FORMAT

#define ROCMFORGE_HEAD_TILE_FORMAT(format, Block, Element, rows) \
  HeadTileFormat{DType::format, {"head_tiles", "head_tile_" #format, LaunchOrder::by_kernel}},
constexpr HeadTileFormat head_tile_formats[] = {ROCMFORGE_MATMUL_TILE_FORMATS(ROCMFORGE_HEAD_TILE_FORMAT)};
#undef ROCMFORGE_HEAD_TILE_FORMAT

/// Of all of gpu::CodedFormats.
constexpr HeadFormat coded_heads = {DType::nvfp4,
                                    1,
                                    {"heads", "head_products_coded", LaunchOrder::by_kernel},
                                    {"heads", "head_product_coded", LaunchOrder::by_kernel}};
constexpr HeadTileFormat coded_head_tiles = {DType::nvfp4, {"head_tiles", "head_tile_coded", LaunchOrder::by_kernel}};

const HeadFormat* find_head_groups(DType dtype) { return find_format(head_formats, coded_heads, dtype); }
/// Null for F32, which does not fit 16-bit elements.
const HeadTileFormat* find_head_tiles(DType dtype) { return find_format(head_tile_formats, coded_head_tiles, dtype); }

gpu::HeadProductArgs product_args(const HeadMatmul::Spec& spec, const HeadMatmul::Args& args) {
  const bool aligned =
      reinterpret_cast<std::uintptr_t>(args.x) % 16 == 0 && args.x_stride % 4 == 0 && spec.k % 4 == 0 && spec.tail % 4 == 0;
  return {.weight = static_cast<const std::uint8_t*>(args.weight),
          .head_bytes = args.head_bytes,
          .row_bytes = static_cast<std::int64_t>(row_bytes(spec.weight, spec.k)),
          .x = args.x,
          .x_stride = args.x_stride,
          .out = args.out,
          .tokens = args.tokens,
          .n = static_cast<std::int32_t>(spec.n),
          .k = static_cast<std::int32_t>(spec.k),
          .tail = static_cast<std::int32_t>(spec.tail),
          .chunk = 0,
          .x_aligned = aligned ? 1 : 0,
          .dtype = spec.weight,
          .sequence_of = args.single_rows != nullptr ? args.single_rows->sequence_of : nullptr,
          .query_offsets = args.single_rows != nullptr ? args.single_rows->query_offsets : nullptr};
}

/// Row tiles, heads and tiles of `tokens` tokens.
LaunchShape head_shape(const HeadMatmul::Spec& spec, const HeadMatmul::Args& args, int rows, int tokens) {
  constexpr std::int64_t most_tiles = 65535;
  const std::int64_t tiles = divide_up(args.tokens, std::int64_t{tokens});
  check(tiles <= most_tiles, "head_matmul: more tokens than a launch can have");
  LaunchShape shape;
  shape.grid = {static_cast<std::uint32_t>(divide_up(spec.n, std::int64_t{rows})), static_cast<std::uint32_t>(spec.heads),
                static_cast<std::uint32_t>(tiles)};
  return shape;
}

void run_groups(const HeadFormat& format, const HeadMatmul::Spec& spec, const HeadMatmul::Args& args, Stream& stream) {
  const int wave_size = stream.device().info().wave_size;
  const int rows = gpu::matvec_threads / wave_size * gpu::matvec_wave_rows(gpu::head_tokens, format.few_rows);
  const int places = args.tokens == 1 ? 1 : gpu::head_tokens;
  const std::int64_t chunk = std::min<std::int64_t>(round_up(spec.k, 256), std::int64_t{256} * wave_size / gpu::head_tokens);
  gpu::HeadProductArgs product = product_args(spec, args);
  product.chunk = static_cast<std::int32_t>(chunk);
  LaunchShape shape = head_shape(spec, args, rows, gpu::head_tokens);
  shape.block[0] = gpu::matvec_threads;
  shape.shared_bytes = static_cast<std::uint32_t>(chunk * places) * 4;
  (places == 1 ? format.of_one : format.groups).launch(stream, shape, product);
}

void run_tiles(const HeadTileFormat& format, const HeadMatmul::Spec& spec, const HeadMatmul::Args& args, Stream& stream) {
  LaunchShape shape = head_shape(spec, args, gpu::head_tile_rows, gpu::head_tile_tokens);
  shape.block[0] = gpu::head_tile_threads;
  format.kernel.launch(stream, shape, product_args(spec, args));
}

class GpuHeadMatmul final : public GpuKernel<HeadMatmulKernel> {
 public:
  using GpuKernel::GpuKernel;

  [[nodiscard]] Support supports(const HeadMatmul::Spec& spec, const DeviceInfo&) const override {
    if (Support support = check_spec(spec); !support.ok) {
      return support;
    }
    if (find_head_groups(spec.weight) == nullptr) {
      return Support::no(fmt::format("format {} has no GPU kernel", info(spec.weight).name));
    }
    constexpr std::int64_t most = std::int64_t{1} << 22;
    constexpr std::int64_t most_heads = 65535;
    if (spec.n > most || spec.k > most || spec.tail > most || spec.heads > most_heads) {
      return Support::no(fmt::format("a side is longer than {}, or there are more than {} heads", most, most_heads));
    }
    return Support::yes();
  }

  [[nodiscard]] std::int64_t few_tokens() const override { return gpu::most_group_tokens; }

  void run(const HeadMatmul::Spec& spec, const HeadMatmul::Args& args, ExecutionContext& context) const override {
    check_arguments(spec, args);
    check(context.stream != nullptr, "head_matmul: a GPU kernel without a stream");
    if (args.tokens == 0) {
      return;
    }
    const HeadTileFormat* tiles = find_head_tiles(spec.weight);
    if (args.tokens <= gpu::most_group_tokens || tiles == nullptr) {
      run_groups(*find_head_groups(spec.weight), spec, args, *context.stream);
    } else {
      run_tiles(*tiles, spec, args, *context.stream);
    }
  }
};

}  // namespace

std::unique_ptr<OpKernel<LatentAppend>> make_gpu_latent_append(DeviceKind kind) {
  return std::make_unique<GpuLatentAppend>(kind);
}

std::unique_ptr<HeadMatmulKernel> make_gpu_head_matmul(DeviceKind kind) { return std::make_unique<GpuHeadMatmul>(kind); }

}  // namespace rocmforge
