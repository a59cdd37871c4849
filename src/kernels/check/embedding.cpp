#include "kernels/check/embedding_args.h"

#include "kernels/check/check_kernel.h"
#include "kernels/check/kernels.h"
#include "kernels/check/launch.h"

namespace rocmforge {
namespace {

using check_kernels::DequantizeCheckArgs;
using check_kernels::EmbeddingCheckArgs;
using check_kernels::one_thread_each;

constexpr Kernel<EmbeddingCheckArgs> embedding_kernel{"embedding_check", "check_embedding"};
constexpr Kernel<DequantizeCheckArgs> dequantize_kernel{"embedding_check", "check_dequantize"};
constexpr Kernel<DequantizeCheckArgs> dequantized_norm_kernel{"embedding_check", "check_dequantized_norm"};

class CheckEmbedding final : public AnyCheckKernel<EmbeddingRows> {
 public:
  using AnyCheckKernel::AnyCheckKernel;
  void run(const EmbeddingRows::Spec& spec, const EmbeddingRows::Args& args, ExecutionContext& context) const override {
    check_arguments(spec, args, device());
    embedding_kernel.launch(*context.stream, one_thread_each(args.tokens * spec.hidden),
                            {.ids = args.ids,
                             .drawn = args.drawn,
                             .table = static_cast<const std::uint8_t*>(args.table),
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

class CheckDequantize final : public AnyCheckKernel<Dequantize> {
 public:
  using AnyCheckKernel::AnyCheckKernel;
  void run(const Dequantize::Spec& spec, const Dequantize::Args& args, ExecutionContext& context) const override {
    check_arguments(spec, args);
    dequantize_kernel.launch(*context.stream, one_thread_each(args.count),
                             {.rows = static_cast<const std::uint8_t*>(args.rows),
                              .weight = nullptr,
                              .out = args.out,
                              .num_rows = args.count > 0 ? 1 : 0,
                              .dim = args.count,
                              .row_bytes = 0,
                              .eps = 0.0,
                              .dtype = spec.dtype,
                              .unused = 0});
  }
};

class CheckDequantizeRmsNorm final : public AnyCheckKernel<DequantizeRmsNorm> {
 public:
  using AnyCheckKernel::AnyCheckKernel;
  void run(const DequantizeRmsNorm::Spec& spec, const DequantizeRmsNorm::Args& args,
           ExecutionContext& context) const override {
    check_arguments(spec, args);
    const DequantizeCheckArgs call{.rows = static_cast<const std::uint8_t*>(args.rows),
                                   .weight = args.weight,
                                   .out = args.out,
                                   .num_rows = args.num_rows,
                                   .dim = spec.dim,
                                   .row_bytes = static_cast<std::int64_t>(row_bytes(spec.dtype, spec.dim)),
                                   .eps = double{spec.eps},
                                   .dtype = spec.dtype,
                                   .unused = 0};
    dequantize_kernel.launch(*context.stream, one_thread_each(args.num_rows * spec.dim), call);
    dequantized_norm_kernel.launch(*context.stream, one_thread_each(args.num_rows), call);
  }
};

}  // namespace

std::unique_ptr<OpKernel<EmbeddingRows>> make_check_embedding(DeviceKind kind) {
  return std::make_unique<CheckEmbedding>(kind);
}
std::unique_ptr<OpKernel<Dequantize>> make_check_dequantize(DeviceKind kind) {
  return std::make_unique<CheckDequantize>(kind);
}
std::unique_ptr<OpKernel<DequantizeRmsNorm>> make_check_dequantize_rms_norm(DeviceKind kind) {
  return std::make_unique<CheckDequantizeRmsNorm>(kind);
}

}  // namespace rocmforge
