#include <fmt/format.h>

#include "kernels/launch/gpu_kernel.h"
#include "kernels/rows/kernels.h"
#include "kernels/rows/portable/embedding_args.h"

namespace rocmforge {
namespace {

constexpr Kernel<gpu::EmbeddingRowsArgs> embedding_kernel{"embedding", "embedding_rows", LaunchOrder::by_kernel};
constexpr Kernel<gpu::DequantizeArgs> dequantize_kernel{"embedding", "dequantize_rows"};
constexpr Kernel<gpu::DequantizeRmsNormArgs> dequantize_rms_norm_kernel{"embedding", "dequantize_rms_norm"};

constexpr std::int64_t read_elems = 8;  ///< elements that a thread reads together

/// The readers load several bytes of a block at once.
void check_aligned(const void* rows, std::string_view operation, std::string_view argument) {
  if (reinterpret_cast<std::uintptr_t>(rows) % 16 != 0) {
    check(false, fmt::format("{}: {} is not 16-byte aligned", operation, argument));
  }
}

class GpuEmbedding final : public PortableGpuKernel<EmbeddingRows> {
 public:
  using PortableGpuKernel::PortableGpuKernel;

  void run(const EmbeddingRows::Spec& spec, const EmbeddingRows::Args& args, ExecutionContext& context) const override {
    check_arguments(spec, args, device());
    check_aligned(args.table, EmbeddingRows::name, "table");
    if (args.tokens == 0) {
      return;
    }
    const std::int64_t reads = divide_up(spec.hidden, read_elems);
    const std::uint32_t threads = threads_for(reads, 128);
    embedding_kernel.launch(*context.stream, launch_of(divide_up(reads, threads), args.tokens, threads),
                            {.ids = args.ids,
                             .drawn = args.drawn,
                             .table = args.table,
                             .out = args.out,
                             .tokens = args.tokens,
                             .vocab = spec.vocab,
                             .hidden = spec.hidden,
                             .row_bytes = static_cast<std::int64_t>(row_bytes(spec.table, spec.hidden)),
                             .dtype = spec.table,
                             .scale = args.scale,
                             .add = args.add ? 1 : 0,
                             .unused = 0});
  }
};

class GpuDequantize final : public PortableGpuKernel<Dequantize> {
 public:
  using PortableGpuKernel::PortableGpuKernel;

  void run(const Dequantize::Spec& spec, const Dequantize::Args& args, ExecutionContext& context) const override {
    check_arguments(spec, args);
    check_aligned(args.rows, Dequantize::name, "rows");
    if (args.count == 0) {
      return;
    }
    constexpr std::uint32_t threads = 128;
    dequantize_kernel.launch(*context.stream, launch_of(divide_up(args.count, threads * read_elems), threads),
                             {.rows = args.rows, .out = args.out, .count = args.count, .dtype = spec.dtype});
  }
};

class GpuDequantizeRmsNorm final : public PortableGpuKernel<DequantizeRmsNorm> {
 public:
  using PortableGpuKernel::PortableGpuKernel;

  void run(const DequantizeRmsNorm::Spec& spec, const DequantizeRmsNorm::Args& args,
           ExecutionContext& context) const override {
    check_arguments(spec, args);
    check_aligned(args.rows, DequantizeRmsNorm::name, "rows");
    if (args.num_rows == 0) {
      return;
    }
    const LaunchShape shape = launch_of(args.num_rows, threads_for(divide_up(spec.dim, read_elems), 1024));
    dequantize_rms_norm_kernel.launch(*context.stream, shape,
                                      {.rows = args.rows,
                                       .weight = args.weight,
                                       .out = args.out,
                                       .num_rows = args.num_rows,
                                       .dim = spec.dim,
                                       .row_bytes = static_cast<std::int64_t>(row_bytes(spec.dtype, spec.dim)),
                                       .dtype = spec.dtype,
                                       .eps = spec.eps});
  }
};

}  // namespace

std::unique_ptr<OpKernel<EmbeddingRows>> make_gpu_embedding(DeviceKind kind) { return std::make_unique<GpuEmbedding>(kind); }
std::unique_ptr<OpKernel<Dequantize>> make_gpu_dequantize(DeviceKind kind) { return std::make_unique<GpuDequantize>(kind); }
std::unique_ptr<OpKernel<DequantizeRmsNorm>> make_gpu_dequantize_rms_norm(DeviceKind kind) {
  return std::make_unique<GpuDequantizeRmsNorm>(kind);
}

}  // namespace rocmforge
