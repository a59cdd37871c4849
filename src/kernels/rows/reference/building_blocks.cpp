#include <algorithm>
#include <cmath>

#include "kernels/check/arguments/arguments.h"
#include "kernels/launch/parallel.h"
#include "kernels/launch/reference_kernel.h"
#include "kernels/rows/kernels.h"
#include "tensor/quant/dequantize.h"

namespace rocmforge {
namespace {

class ReferenceResidualAdd final : public AnyReference<ResidualAdd> {
 public:
  void run(const ResidualAdd::Spec& spec, const ResidualAdd::Args& args, ExecutionContext& context) const override {
    check_arguments(spec, args);
    constexpr std::int64_t grain = 32768;
    for_each_range(context, args.count, grain, [&](std::int64_t begin, std::int64_t end) {
      std::transform(args.a + begin, args.a + end, args.b + begin, args.out + begin, [&](float a, float b) {
        return static_cast<float>((double{a} + double{args.factor} * double{b}) * double{args.scale});
      });
    });
  }
};

class ReferenceDequantize final : public AnyReference<Dequantize> {
 public:
  void run(const Dequantize::Spec& spec, const Dequantize::Args& args, ExecutionContext&) const override {
    check_arguments(spec, args);
    dequantize_row(spec.dtype, args.rows, args.out, args.count);
  }
};

class ReferenceDequantizeRmsNorm final : public AnyReference<DequantizeRmsNorm> {
 public:
  void run(const DequantizeRmsNorm::Spec& spec, const DequantizeRmsNorm::Args& args, ExecutionContext&) const override {
    check_arguments(spec, args);
    const auto* rows = static_cast<const std::byte*>(args.rows);
    for (std::int64_t r = 0; r < args.num_rows; ++r) {
      float* out = args.out + r * spec.dim;
      dequantize_row(spec.dtype, rows + static_cast<std::size_t>(r) * row_bytes(spec.dtype, spec.dim), out, spec.dim);
      double sum = 0.0;
      std::for_each(out, out + spec.dim, [&](float value) { sum += double{value} * double{value}; });
      const double scale = 1.0 / std::sqrt(sum / static_cast<double>(spec.dim) + double{spec.eps});
      std::transform(out, out + spec.dim, args.weight, out,
                     [&](float value, float weight) { return static_cast<float>(double{value} * scale * double{weight}); });
    }
  }
};

class ReferenceGatherRows final : public AnyReference<GatherRows> {
 public:
  void run(const GatherRows::Spec& spec, const GatherRows::Args& args, ExecutionContext&) const override {
    check_arguments(spec, args);
    for (std::int64_t i = 0; i < args.count; ++i) {
      std::copy_n(args.x + args.ids[i] * spec.dim, spec.dim, args.out + i * spec.dim);
    }
  }
};

class ReferenceOverwriteRows final : public AnyReference<OverwriteRows> {
 public:
  void run(const OverwriteRows::Spec& spec, const OverwriteRows::Args& args, ExecutionContext&) const override {
    check_arguments(spec, args);
    for (std::int64_t i = 0; i < args.count; ++i) {
      const float* from = args.x + args.from[i] * args.x_stride;
      float* to = args.out + args.ids[i] * spec.dim;
      for (std::int64_t e = 0; e < spec.dim; ++e) {
        to[e] = args.add ? to[e] + from[e] : from[e];
      }
    }
  }
};

class ReferenceAllReduce final : public AnyReference<AllReduce> {
 public:
  void run(const AllReduce::Spec& spec, const AllReduce::Args& args, ExecutionContext&) const override {
    check_arguments(spec, args);
    for (std::int64_t i = 0; i < args.count; ++i) {
      double sum = 0.0;
      for (std::int32_t rank = 0; rank < spec.ranks; ++rank) {
        sum += double{args.parts[static_cast<std::size_t>(rank)][i]};
      }
      args.out[i] = static_cast<float>(args.add ? double{args.out[i]} + sum : sum);
    }
  }
};

}  // namespace

std::unique_ptr<OpKernel<AllReduce>> make_reference_all_reduce() { return std::make_unique<ReferenceAllReduce>(); }
std::unique_ptr<OpKernel<ResidualAdd>> make_reference_residual_add() { return std::make_unique<ReferenceResidualAdd>(); }
std::unique_ptr<OpKernel<Dequantize>> make_reference_dequantize() { return std::make_unique<ReferenceDequantize>(); }
std::unique_ptr<OpKernel<DequantizeRmsNorm>> make_reference_dequantize_rms_norm() {
  return std::make_unique<ReferenceDequantizeRmsNorm>();
}
std::unique_ptr<OpKernel<OverwriteRows>> make_reference_overwrite_rows() {
  return std::make_unique<ReferenceOverwriteRows>();
}
std::unique_ptr<OpKernel<GatherRows>> make_reference_gather_rows() { return std::make_unique<ReferenceGatherRows>(); }

}  // namespace rocmforge
