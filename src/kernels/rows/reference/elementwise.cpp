#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/check/arguments/arguments.h"
#include "kernels/launch/parallel.h"
#include "kernels/launch/reference_kernel.h"
#include "kernels/rows/kernels.h"
#include "kernels/rows/reference/activation.h"
#include "tensor/quant/dequantize.h"

namespace rocmforge {
namespace {

class ReferenceEmbedding final : public ReferenceKernel<OpKernel<EmbeddingRows>> {
 public:
  [[nodiscard]] Support supports(const EmbeddingRows::Spec& spec, const DeviceInfo&) const override {
    return check_spec(spec);
  }

  void run(const EmbeddingRows::Spec& spec, const EmbeddingRows::Args& args, ExecutionContext&) const override {
    check_arguments(spec, args);
    const std::size_t bytes = row_bytes(spec.table, spec.hidden);
    std::vector<float> row(static_cast<std::size_t>(spec.hidden));
    for (std::int64_t t = 0; t < args.tokens; ++t) {
      float* out = args.out + t * spec.hidden;
      const std::int32_t id = embedded_token(args, t);
      if (id < 0 || id >= spec.vocab) {
        std::fill_n(out, spec.hidden, std::numeric_limits<float>::quiet_NaN());
        continue;
      }
      dequantize_row(spec.table, static_cast<const std::byte*>(args.table) + static_cast<std::size_t>(id) * bytes,
                     row.data(), spec.hidden);
      for (std::int64_t i = 0; i < spec.hidden; ++i) {
        const float value = row[static_cast<std::size_t>(i)] * args.scale;
        out[i] = args.add ? out[i] + value : value;
      }
    }
  }
};

class ReferenceRmsNorm final : public ReferenceKernel<OpKernel<RmsNorm>> {
 public:
  [[nodiscard]] Support supports(const RmsNorm::Spec& spec, const DeviceInfo&) const override { return check_spec(spec); }

  void run(const RmsNorm::Spec& spec, const RmsNorm::Args& args, ExecutionContext&) const override {
    check_arguments(spec, args);
    const std::int64_t stride = args.stride != 0 ? args.stride : spec.dim;
    for (std::int64_t r = 0; r < args.rows; ++r) {
      const float* x = args.x + r * stride;
      const float* weight = args.weight + r % spec.groups * spec.dim;
      const float* residual = args.residual != nullptr ? args.residual + r * stride : nullptr;
      float* out = args.out + r * stride;
      double sum = 0.0;
      for (std::int64_t i = 0; i < spec.dim; ++i) {
        sum += double{x[i]} * double{x[i]};
      }
      const double scale = 1.0 / std::sqrt(sum / static_cast<double>(spec.dim) + double{spec.eps});
      for (std::int64_t i = 0; i < spec.dim; ++i) {
        const double normalised = double{x[i]} * scale * double{weight[i]};
        out[i] = static_cast<float>(residual != nullptr
                                        ? (double{residual[i]} + double{args.factor} * normalised) * double{args.scale}
                                        : normalised);
      }
    }
  }
};

class ReferenceLayerNorm final : public AnyReference<LayerNorm> {
 public:
  void run(const LayerNorm::Spec& spec, const LayerNorm::Args& args, ExecutionContext& context) const override {
    check_arguments(spec, args);
    for_each_range(context, args.rows, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t r = begin; r < end; ++r) {
        for (std::int64_t group = 0; group < spec.groups; ++group) {
          normalise(spec, args, r * row_stride(spec, args) + group * spec.dim, group * spec.dim);
        }
      }
    });
  }

 private:
  /// Of the part of a row at element `at`, with the weights at element `weights_at`.
  static void normalise(const LayerNorm::Spec& spec, const LayerNorm::Args& args, std::int64_t at, std::int64_t weights_at) {
    const float* x = args.x + at;
    float* out = args.out + at;
    const auto dim = static_cast<double>(spec.dim);
    double sum = 0.0;
    for (std::int64_t i = 0; i < spec.dim; ++i) {
      sum += double{x[i]};
    }
    const double mean = sum / dim;
    double squares = 0.0;
    for (std::int64_t i = 0; i < spec.dim; ++i) {
      squares += (double{x[i]} - mean) * (double{x[i]} - mean);
    }
    const double scale = 1.0 / std::sqrt(squares / dim + double{spec.eps});
    for (std::int64_t i = 0; i < spec.dim; ++i) {
      const double bias = spec.bias ? double{args.bias[weights_at + i]} : 0.0;
      out[i] = static_cast<float>((double{x[i]} - mean) * scale * double{args.weight[weights_at + i]} + bias);
    }
  }
};

class ReferenceGatedActivation final : public ReferenceKernel<OpKernel<GatedActivation>> {
 public:
  [[nodiscard]] Support supports(const GatedActivation::Spec& spec, const DeviceInfo&) const override {
    return check_spec(spec);
  }

  void run(const GatedActivation::Spec& spec, const GatedActivation::Args& args, ExecutionContext& context) const override {
    check_arguments(spec, args);
    const std::int64_t up_stride = args.up_stride != 0 ? args.up_stride : args.stride;
    for_each_range(context, args.tokens, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t t = begin; t < end; ++t) {
        for (std::int64_t i = 0; i < spec.width; ++i) {
          const double up = double{args.up[t * up_stride + i]};
          const double value = spec.gated ? activate(spec.activation, double{args.gate[t * args.stride + i]}) * up
                                          : activate(spec.activation, up);
          args.out[t * spec.width + i] = static_cast<float>(value);
        }
      }
    });
  }
};

}  // namespace

std::unique_ptr<OpKernel<EmbeddingRows>> make_reference_embedding() { return std::make_unique<ReferenceEmbedding>(); }
std::unique_ptr<OpKernel<RmsNorm>> make_reference_rms_norm() { return std::make_unique<ReferenceRmsNorm>(); }
std::unique_ptr<OpKernel<LayerNorm>> make_reference_layer_norm() { return std::make_unique<ReferenceLayerNorm>(); }
std::unique_ptr<OpKernel<GatedActivation>> make_reference_gated_activation() {
  return std::make_unique<ReferenceGatedActivation>();
}

}  // namespace rocmforge
