#include <fmt/format.h>

#include <algorithm>
#include <type_traits>

#include "kernels/experts/kernels.h"
#include "kernels/experts/portable/experts_args.h"
#include "kernels/experts/portable/experts_tiles.h"
#include "kernels/experts/portable/route_choice.h"
#include "kernels/launch/gpu_kernel.h"
#include "kernels/matmul/portable/format_kernels.h"
#include "tensor/quant/formats.h"

namespace rocmforge {
namespace {

constexpr Kernel<gpu::RouteArgs> route_kernel{"experts", "route_tokens", LaunchOrder::by_kernel};

struct VectorFormat {
  DType dtype;
  int few_rows;
  Kernel<gpu::ExpertVectorArgs> gate_up;
  Kernel<gpu::ExpertVectorArgs> down;
};

struct ExpertTileFormat {
  DType dtype;
  bool bfloat;
  Kernel<gpu::ExpertTileArgs> kernel;
};

#define ROCMFORGE_VECTOR_FORMAT(format, Block, Element, rows)                  \
  VectorFormat{DType::format,                                                  \
               rows,                                                           \
               {"experts", "expert_gate_up_" #format, LaunchOrder::by_kernel}, \
               {"experts", "expert_down_" #format, LaunchOrder::by_kernel}},
constexpr VectorFormat vector_formats[] = {ROCMFORGE_MATMUL_FORMATS(ROCMFORGE_VECTOR_FORMAT)};
#undef ROCMFORGE_VECTOR_FORMAT

#define ROCMFORGE_TILE_FORMAT(format, Block, Element, rows) \
  ExpertTileFormat{                                         \
      DType::format, std::is_same_v<Element, bfloat16>, {"experts", "expert_tiles_" #format, LaunchOrder::by_kernel}},
constexpr ExpertTileFormat expert_tile_formats[] = {ROCMFORGE_MATMUL_TILE_FORMATS(ROCMFORGE_TILE_FORMAT)};
#undef ROCMFORGE_TILE_FORMAT

/// Of all of gpu::CodedFormats.
constexpr VectorFormat coded_vectors = {DType::nvfp4,
                                        1,
                                        {"experts", "expert_gate_up_coded", LaunchOrder::by_kernel},
                                        {"experts", "expert_down_coded", LaunchOrder::by_kernel}};
constexpr ExpertTileFormat coded_expert_tiles = {
    DType::nvfp4, false, {"experts", "expert_tiles_coded", LaunchOrder::by_kernel}};

const VectorFormat* find_vectors(DType dtype) { return find_format(vector_formats, coded_vectors, dtype); }
/// Null for F32, whose slots are all computed singly.
const ExpertTileFormat* find_expert_tiles(DType dtype) {
  return find_format(expert_tile_formats, coded_expert_tiles, dtype);
}

bool takes_vectors(DType dtype, std::int64_t tokens) {
  return tokens <= gpu::most_matvec_tokens || find_expert_tiles(dtype) == nullptr;
}

class GpuRouteTokens final : public PortableGpuKernel<RouteTokens> {
 public:
  using PortableGpuKernel::PortableGpuKernel;

  [[nodiscard]] Support supports(const RouteTokens::Spec& spec, const DeviceInfo&) const override {
    return check_route_room(spec);
  }

  void run(const RouteTokens::Spec& spec, const RouteTokens::Args& args, ExecutionContext& context) const override {
    check_arguments(spec, args);
    if (args.tokens == 0) {
      return;
    }
    route_kernel.launch(*context.stream, expert_grid(args.tokens, 1, context.stream->device().info().wave_size),
                        {.choice = route_choice(spec, args), .logits = args.logits});
  }
};

class GpuExpertMatmul final : public GpuKernel<ExpertMatmulKernel> {
 public:
  using GpuKernel::GpuKernel;

  [[nodiscard]] Support supports(const ExpertMatmul::Spec& spec, const DeviceInfo&) const override {
    if (Support support = check_spec(spec); !support.ok) {
      return support;
    }
    if (find_vectors(spec.weight) == nullptr) {
      return Support::no(fmt::format("format {} has no GPU kernel", info(spec.weight).name));
    }
    constexpr std::int64_t most = std::int64_t{1} << 22;
    if (spec.n > most || spec.k > most || spec.experts > gpu::most_experts) {
      return Support::no(
          fmt::format("a side is longer than {}, or there are more than {} experts", most, gpu::most_experts));
    }
    return Support::yes();
  }

  [[nodiscard]] bool mixes_formats() const override { return false; }

  [[nodiscard]] std::size_t workspace_bytes(const ExpertMatmul::Spec& spec, std::int64_t tokens) const override {
    if (takes_vectors(spec.weight, tokens)) {
      return 0;
    }
    return expert_tiles_bytes(spec, tokens);
  }
  [[nodiscard]] std::size_t order_bytes(const ExpertMatmul::Spec& spec, std::int64_t tokens) const override {
    return takes_vectors(spec.weight, tokens) ? 0 : expert_order_bytes(spec, tokens);
  }

  void run(const ExpertMatmul::Args& args, ExecutionContext& context) const override {
    check_arguments(args, device());
    check(context.stream != nullptr, "expert_matmul: a GPU kernel without a stream");
    check(args.weights.size() == 1 || args.weights[0].dtype == args.weights[1].dtype,
          "expert_matmul: gate and up are of different formats");
    if (args.tokens == 0) {
      return;
    }
    if (takes_vectors(args.weights[0].dtype, args.tokens)) {
      run_vectors(args, *context.stream);
    } else {
      const ExpertTileFormat& format = *find_expert_tiles(args.weights[0].dtype);
      // Whether the call before sorted the slots is not known: with weights in F32 it did not.
      run_expert_tiles(args,
                       {.kernel = format.kernel,
                        .weight_stride = static_cast<std::int64_t>(row_bytes(args.weights[0].dtype, args.k)),
                        .bfloat = format.bfloat},
                       *context.stream);
    }
  }

 private:
  static void run_vectors(const ExpertMatmul::Args& args, Stream& stream) {
    const ExpertWeight& weight = args.weights[0];
    const VectorFormat& format = *find_vectors(weight.dtype);
    const bool gated = args.weights.size() == 2;
    const ExpertWeight& other = args.weights[gated ? 1 : 0];
    const int wave_size = stream.device().info().wave_size;
    const int rows = gpu::matvec_threads / wave_size * (gated ? gpu::expert_pairs(format.few_rows) : format.few_rows);
    const std::int64_t count = args.down() ? args.tokens : args.tokens * args.used;
    const gpu::ExpertVectorArgs launch{
        .weights = {static_cast<const std::uint8_t*>(weight.data), static_cast<const std::uint8_t*>(other.data)},
        .expert_bytes = {weight.expert_bytes, other.expert_bytes},
        .finish = {expert_finish(weight), expert_finish(other)},
        .row_bytes = static_cast<std::int64_t>(row_bytes(weight.dtype, args.k)),
        .ids = args.ids,
        .shares = args.shares,
        .x = args.x,
        .out = args.out,
        .n = static_cast<std::int32_t>(weight.n),
        .k = static_cast<std::int32_t>(args.k),
        .used = static_cast<std::int32_t>(args.alone ? 1 : args.used),
        .count = static_cast<std::int32_t>(count),
        .chunk = static_cast<std::int32_t>(std::min<std::int64_t>(round_up(args.k, 256), 256 * wave_size)),
        .x_aligned = reinterpret_cast<std::uintptr_t>(args.x) % 16 == 0 && args.k % 4 == 0 ? 1 : 0,
        .activation = args.activation,
        .dtype = weight.dtype,
        .slots_of_row = static_cast<std::int32_t>(args.alone ? args.used : 1),
        .alone = args.alone ? 1 : 0};
    LaunchShape shape = expert_grid(divide_up(weight.n, rows), count, gpu::matvec_threads);
    shape.shared_bytes = static_cast<std::uint32_t>(launch.chunk) * 4;
    (gated ? format.gate_up : format.down).launch(stream, shape, launch);
  }
};

}  // namespace

Support check_route_room(const RouteTokens::Spec& spec) {
  if (spec.experts > gpu::most_experts - spec.shared || spec.taken() > gpu::most_experts_used) {
    return Support::no(fmt::format("{} of {} experts and {} shared, at most {} of {} are possible", spec.used, spec.experts,
                                   spec.shared, gpu::most_experts_used, gpu::most_experts));
  }
  return check_spec(spec);
}

std::unique_ptr<OpKernel<RouteTokens>> make_gpu_route_tokens(DeviceKind kind) {
  return std::make_unique<GpuRouteTokens>(kind);
}

std::unique_ptr<ExpertMatmulKernel> make_gpu_expert_matmul(DeviceKind kind) {
  return std::make_unique<GpuExpertMatmul>(kind);
}

}  // namespace rocmforge
