#include <fmt/format.h>

#include <array>

#include "kernels/launch/gpu_kernel.h"
#include "kernels/matmul/kernels.h"
#include "kernels/matmul/portable/format_kernels.h"
#include "kernels/matmul/portable/matmul_args.h"
#include "kernels/matmul/portable/matmul_convert.h"
#include "kernels/matmul/portable/matmul_launch.h"
#include "tensor/quant/formats.h"

namespace rocmforge {
namespace {

constexpr int matvec_sizes = 4;  ///< kernels for 1, 2, 4 and 8 tokens

struct MatvecFormat {
  DType dtype;
  int few_rows;
  std::array<Kernel<gpu::MatvecArgs>, matvec_sizes> kernels;
};

struct TileFormat {
  DType dtype;
  bool bfloat;
  MatmulTileKernels kernels;
};

#define ROCMFORGE_MATVEC_FORMAT(format, Block, Element, rows)                                      \
  MatvecFormat{DType::format,                                                                      \
               rows,                                                                               \
               {Kernel<gpu::MatvecArgs>{"matvec", "matvec_" #format "_1", LaunchOrder::by_kernel}, \
                {"matvec", "matvec_" #format "_2", LaunchOrder::by_kernel},                        \
                {"matvec", "matvec_" #format "_4", LaunchOrder::by_kernel},                        \
                {"matvec", "matvec_" #format "_8", LaunchOrder::by_kernel}}},
constexpr MatvecFormat matvec_formats[] = {ROCMFORGE_MATMUL_FORMATS(ROCMFORGE_MATVEC_FORMAT)};
#undef ROCMFORGE_MATVEC_FORMAT

#define ROCMFORGE_TILE_FORMAT(format, Block, Element, rows) \
  TileFormat{DType::format,                                 \
             std::is_same_v<Element, bfloat16>,             \
             {{"matmul", "matmul_" #format "_large"}, {"matmul", "matmul_" #format "_small"}}},
constexpr TileFormat tile_formats[] = {ROCMFORGE_MATMUL_TILE_FORMATS(ROCMFORGE_TILE_FORMAT)};
#undef ROCMFORGE_TILE_FORMAT

/// Of all of gpu::CodedFormats.
constexpr MatvecFormat coded_matvec = {DType::nvfp4,
                                       1,
                                       {Kernel<gpu::MatvecArgs>{"matvec", "matvec_coded_1", LaunchOrder::by_kernel},
                                        {"matvec", "matvec_coded_2", LaunchOrder::by_kernel},
                                        {"matvec", "matvec_coded_4", LaunchOrder::by_kernel},
                                        {"matvec", "matvec_coded_8", LaunchOrder::by_kernel}}};
constexpr TileFormat coded_tiles = {
    DType::nvfp4, false, {{"matmul", "matmul_coded_large"}, {"matmul", "matmul_coded_small"}}};

constexpr Kernel<gpu::MatmulFloatArgs> float_kernel{"matmul", "matmul_float"};

const MatvecFormat* find_matvec(DType dtype) { return find_format(matvec_formats, coded_matvec, dtype); }
const TileFormat* find_tiles(DType dtype) { return find_format(tile_formats, coded_tiles, dtype); }

/// Bytes from one row of a weight to the next.
std::int64_t file_stride(DType dtype, const Matmul::Args& call) {
  return static_cast<std::int64_t>(row_bytes(dtype, call.k));
}

LaunchShape shape_of(std::int64_t columns, std::int64_t rows, int threads) {
  LaunchShape shape;
  shape.grid = {static_cast<std::uint32_t>(columns), static_cast<std::uint32_t>(rows), 1};
  shape.block[0] = static_cast<std::uint32_t>(threads);
  return shape;
}

void run_matvec(const MatvecFormat& format, DType dtype, const Matmul::Args& call, Stream& stream) {
  int size = 0;
  while (1 << size < call.tokens) {
    ++size;
  }
  const int tokens = 1 << size;
  const int wave_size = stream.device().info().wave_size;
  gpu::MatvecArgs args{};
  const std::int64_t rows = gpu::matvec_threads / wave_size * gpu::matvec_wave_rows(tokens, format.few_rows);
  const std::int64_t tiles = set_parts(call, dtype, file_stride(dtype, call), rows, args);
  args.dtype = dtype;
  args.x = call.x;
  args.x_stride = call.x_stride;
  args.k = static_cast<std::int32_t>(call.k);
  args.tokens = static_cast<std::int32_t>(call.tokens);
  // A chunk is a whole number of steps of a wave, and what all tokens need of it fits into shared memory.
  args.chunk = static_cast<std::int32_t>(std::min<std::int64_t>(round_up(call.k, 256), 256 * wave_size / tokens));
  const bool aligned_rows = call.tokens == 1 || call.x_stride % 4 == 0;
  args.x_aligned = reinterpret_cast<std::uintptr_t>(call.x) % 16 == 0 && aligned_rows && call.k % 4 == 0 ? 1 : 0;
  LaunchShape shape = shape_of(tiles, 1, gpu::matvec_threads);
  shape.shared_bytes = static_cast<std::uint32_t>(args.chunk * tokens) * 4;
  format.kernels[static_cast<std::size_t>(size)].launch(stream, shape, args);
}

void run_float(const Matmul::Args& call, Stream& stream) {
  gpu::MatmulFloatArgs args{};
  const std::int64_t tiles = set_parts(call, DType::f32, file_stride(DType::f32, call), gpu::float_tile, args);
  args.x = call.x;
  args.x_stride = call.x_stride;
  args.k = static_cast<std::int32_t>(call.k);
  args.tokens = static_cast<std::int32_t>(call.tokens);
  float_kernel.launch(stream, shape_of(divide_up(call.tokens, gpu::float_tile), tiles, gpu::float_threads), args);
}

class GpuMatmul final : public GpuKernel<MatmulKernel> {
 public:
  using GpuKernel::GpuKernel;

  [[nodiscard]] Support supports(const Matmul::Spec& spec, const DeviceInfo&) const override {
    if (Support support = check_spec(spec); !support.ok) {
      return support;
    }
    if (find_matvec(spec.weight) == nullptr) {
      return Support::no(fmt::format("format {} has no GPU kernel", info(spec.weight).name));
    }
    constexpr std::int64_t most = std::int64_t{1} << 22;
    if (spec.n > most || spec.k > most) {
      return Support::no(fmt::format("a side is longer than {}", most));
    }
    return Support::yes();
  }

  [[nodiscard]] std::size_t workspace_bytes(std::int64_t tokens, std::int64_t k) const override {
    return tokens <= gpu::most_matvec_tokens ? 0 : converted_bytes(tokens, k);
  }

  [[nodiscard]] std::int64_t few_tokens() const override { return gpu::most_matvec_tokens; }

  void run(const Matmul::Args& args, ExecutionContext& context) const override {
    check_arguments(args);
    check(context.stream != nullptr, "matmul: a GPU kernel without a stream");
    if (args.tokens == 0) {
      return;
    }
    const bool few = args.tokens <= gpu::most_matvec_tokens;
    const ConvertedRows converted = few ? ConvertedRows{} : place_converted(args);
    enum class Content { none, half, bfloat } content = Content::none;  // of the workspace
    for (std::size_t i = 0; i < args.outputs.size(); ++i) {
      const DType dtype = args.outputs[i].dtype;
      const auto before = args.outputs.first(i);
      if (std::ranges::find(before, dtype, &MatmulOutput::dtype) != before.end()) {
        continue;  // ran with the first output of its format
      }
      if (few) {
        const MatvecFormat* format = find_matvec(dtype);
        check(format != nullptr, "matmul: a format without a kernel");
        run_matvec(*format, dtype, args, *context.stream);
      } else if (dtype == DType::f32) {
        run_float(args, *context.stream);
      } else {
        const TileFormat* format = find_tiles(dtype);
        check(format != nullptr, "matmul: a format without a kernel");
        if (const Content wanted = format->bfloat ? Content::bfloat : Content::half; content != wanted) {
          convert_rows(args, format->bfloat, converted, *context.stream);
          content = wanted;
        }
        run_matmul_tiles(format->kernels, dtype, file_stride(dtype, args), args, converted, *context.stream);
      }
    }
  }
};

}  // namespace

std::unique_ptr<MatmulKernel> make_gpu_matmul(DeviceKind kind) { return std::make_unique<GpuMatmul>(kind); }

}  // namespace rocmforge
