#include <algorithm>
#include <array>
#include <functional>
#include <limits>
#include <vector>

#include "kernels/check/arguments/arguments.h"
#include "kernels/launch/cpu/isa.h"
#include "kernels/launch/parallel.h"
#include "kernels/rows/kernels.h"
#include "tensor/quant/dequantize.h"

namespace rocmforge {
namespace {

/// Rows for one thread at a time: about 10 microseconds of work, so that handing them out costs little.
std::int64_t row_grain(std::int64_t width) { return std::max<std::int64_t>(1, 32768 / width); }

class CpuEmbedding final : public OpKernel<EmbeddingRows> {
 public:
  [[nodiscard]] std::string_view name() const override { return "cpu"; }
  [[nodiscard]] DeviceKind device() const override { return DeviceKind::cpu; }
  [[nodiscard]] KernelPriority priority() const override { return KernelPriority::portable; }
  [[nodiscard]] Support supports(const EmbeddingRows::Spec& spec, const DeviceInfo&) const override {
    return check_spec(spec);
  }

  void run(const EmbeddingRows::Spec& spec, const EmbeddingRows::Args& args, ExecutionContext& context) const override {
    check_arguments(spec, args);
    const auto* table = static_cast<const std::byte*>(args.table);
    const std::size_t bytes = row_bytes(spec.table, spec.hidden);
    for_each_range(context, args.tokens, row_grain(spec.hidden), [&](std::int64_t begin, std::int64_t end) {
      std::vector<float> row(args.add ? static_cast<std::size_t>(spec.hidden) : 0);
      for (std::int64_t t = begin; t < end; ++t) {
        float* out = args.out + t * spec.hidden;
        const std::int32_t id = embedded_token(args, t);
        if (id < 0 || id >= spec.vocab) {
          std::fill_n(out, spec.hidden, std::numeric_limits<float>::quiet_NaN());
          continue;
        }
        const std::byte* source = table + static_cast<std::size_t>(id) * bytes;
        if (args.add) {
          dequantize_row(spec.table, source, row.data(), spec.hidden);
          std::transform(row.begin(), row.end(), out, out, [&](float value, float sum) { return sum + value * args.scale; });
          continue;
        }
        dequantize_row(spec.table, source, out, spec.hidden);
        if (args.scale != 1.0f) {
          std::for_each(out, out + spec.hidden, [&](float& value) { value *= args.scale; });
        }
      }
    });
  }
};

class CpuAllReduce final : public OpKernel<AllReduce> {
 public:
  [[nodiscard]] std::string_view name() const override { return "cpu"; }
  [[nodiscard]] DeviceKind device() const override { return DeviceKind::cpu; }
  [[nodiscard]] KernelPriority priority() const override { return KernelPriority::portable; }
  [[nodiscard]] Support supports(const AllReduce::Spec& spec, const DeviceInfo&) const override { return check_spec(spec); }

  void run(const AllReduce::Spec& spec, const AllReduce::Args& args, ExecutionContext& context) const override {
    check_arguments(spec, args);
    constexpr std::int64_t piece = 1024;  // stays in the first cache while the parts are added to it
    for_each_range(context, args.count, 8 * piece, [&](std::int64_t begin, std::int64_t end) {
      std::array<float, piece> sum{};
      for (std::int64_t first = begin; first < end; first += piece) {
        const std::int64_t count = std::min(piece, end - first);
        std::copy_n(args.parts[0] + first, count, sum.begin());
        for (std::int32_t rank = 1; rank < spec.ranks; ++rank) {
          const float* part = args.parts[static_cast<std::size_t>(rank)] + first;
          std::transform(part, part + count, sum.begin(), sum.begin(),
                         [](float more, float so_far) { return so_far + more; });
        }
        float* out = args.out + first;
        if (args.add) {
          std::transform(out, out + count, sum.begin(), out, std::plus<>());
        } else {
          std::copy_n(sum.begin(), count, out);
        }
      }
    });
  }
};

class CpuRmsNorm final : public CpuKernel<OpKernel<RmsNorm>> {
 public:
  using CpuKernel::CpuKernel;

  [[nodiscard]] Support supports(const RmsNorm::Spec& spec, const DeviceInfo& device) const override {
    const Support support = check_device(device);
    return support.ok ? check_spec(spec) : support;
  }

  void run(const RmsNorm::Spec& spec, const RmsNorm::Args& args, ExecutionContext& context) const override {
    check_arguments(spec, args);
    const std::int64_t stride = args.stride != 0 ? args.stride : spec.dim;
    for_each_range(context, args.rows, row_grain(spec.dim), [&](std::int64_t begin, std::int64_t end) {
      std::vector<float> normalised(args.residual != nullptr ? static_cast<std::size_t>(spec.dim) : 0);
      for (std::int64_t r = begin; r < end; ++r) {
        const float* weight = args.weight + r % spec.groups * spec.dim;
        float* out = args.out + r * stride;
        body().rms_norm(args.x + r * stride, weight, spec.dim, spec.eps, args.residual != nullptr ? normalised.data() : out);
        if (args.residual != nullptr) {
          std::transform(normalised.begin(), normalised.end(), args.residual + r * stride, out, [&](float value, float sum) {
            return static_cast<float>((double{sum} + double{args.factor} * double{value}) * double{args.scale});
          });
        }
      }
    });
  }
};

class CpuGatedActivation final : public CpuKernel<OpKernel<GatedActivation>> {
 public:
  using CpuKernel::CpuKernel;

  [[nodiscard]] Support supports(const GatedActivation::Spec& spec, const DeviceInfo& device) const override {
    const Support support = check_device(device);
    return support.ok ? check_spec(spec) : support;
  }

  void run(const GatedActivation::Spec& spec, const GatedActivation::Args& args, ExecutionContext& context) const override {
    check_arguments(spec, args);
    const auto gate = spec.activation == Activation::silu         ? body().silu_gate
                      : spec.activation == Activation::gelu_tanh  ? body().gelu_tanh_gate
                      : spec.activation == Activation::gelu       ? body().gelu_gate
                      : spec.activation == Activation::gelu_quick ? body().gelu_quick_gate
                                                                  : body().relu_squared;
    const std::int64_t up_stride = args.up_stride != 0 ? args.up_stride : args.stride;
    for_each_range(context, args.tokens, row_grain(spec.width), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t t = begin; t < end; ++t) {
        const float* gated_by = spec.gated ? args.gate + t * args.stride : nullptr;
        gate(gated_by, args.up + t * up_stride, spec.width, args.out + t * spec.width);
      }
    });
  }
};

}  // namespace

std::unique_ptr<OpKernel<AllReduce>> make_cpu_all_reduce() { return std::make_unique<CpuAllReduce>(); }
std::unique_ptr<OpKernel<EmbeddingRows>> make_cpu_embedding() { return std::make_unique<CpuEmbedding>(); }

std::unique_ptr<OpKernel<RmsNorm>> make_cpu_rms_norm(const CpuBodies& bodies) {
  return std::make_unique<CpuRmsNorm>(bodies);
}

std::unique_ptr<OpKernel<GatedActivation>> make_cpu_gated_activation(const CpuBodies& bodies) {
  return std::make_unique<CpuGatedActivation>(bodies);
}

}  // namespace rocmforge
