#include <cmath>
#include <limits>
#include <vector>

#include "kernels/check/arguments/arguments.h"
#include "kernels/launch/parallel.h"
#include "kernels/launch/reference_kernel.h"
#include "kernels/matmul/kernels.h"
#include "kernels/rows/reference/activation.h"
#include "tensor/quant/dequantize.h"

namespace rocmforge {
namespace {

/// The factor of the norm for each row of x, [tokens]; empty without a norm.
std::vector<double> row_scales(const Matmul::Args& args) {
  std::vector<double> scales;
  for (std::int64_t t = 0; args.norm_weight != nullptr && t < args.tokens; ++t) {
    double sum = 0.0;
    for (std::int64_t i = 0; i < args.k; ++i) {
      const double x = args.x[t * args.x_stride + i];
      sum += x * x;
    }
    scales.push_back(1.0 / std::sqrt(sum / static_cast<double>(args.k) + double{args.norm_eps}));
  }
  return scales;
}

/// Writes the sums of MatmulPostNorm.
void add_post_norm(const Matmul::Args& args) {
  const MatmulPostNorm& post = *args.post_norm;
  for (std::int64_t t = 0; t < args.tokens; ++t) {
    const float* x = args.x + t * args.x_stride;
    const float* y = post.y + t * post.y_stride;
    double sum = 0.0;
    for (std::int64_t i = 0; i < args.k; ++i) {
      sum += double{y[i]} * double{y[i]};
    }
    const double factor = double{post.factor} / std::sqrt(sum / static_cast<double>(args.k) + double{post.eps});
    for (std::int64_t i = 0; i < args.k; ++i) {
      const double normed = factor * double{y[i]} * double{post.weight[i]};
      post.out[t * post.out_stride + i] = static_cast<float>((double{x[i]} + normed) * double{post.scale});
    }
  }
}

/// A weight's rows in double, one at a time, and their products with every token's input.
class RowProducts {
 public:
  RowProducts(const Matmul::Args& args, std::span<const double> scales, const MatmulOutput& output)
      : args_(args),
        scales_(scales),
        output_(output),
        row_(static_cast<std::size_t>(args.k)),
        weight_(static_cast<std::size_t>(args.k)) {}

  void read(std::int64_t n) {
    const std::size_t offset = static_cast<std::size_t>(n) * row_bytes(output_.dtype, args_.k);
    dequantize_row(output_.dtype, static_cast<const std::byte*>(output_.weight) + offset, row_.data(), args_.k);
    for (std::size_t i = 0; i < row_.size(); ++i) {
      weight_[i] =
          double{row_[i]} * double{output_.scale} * (args_.norm_weight != nullptr ? double{args_.norm_weight[i]} : 1.0);
    }
    bias_ = output_.bias != nullptr ? double{output_.bias[n]} : 0.0;
  }

  [[nodiscard]] double of(std::int64_t t) const {
    const float* x = args_.x + t * args_.x_stride;
    double sum = 0.0;
    for (std::size_t i = 0; i < weight_.size(); ++i) {
      sum += double{x[i]} * weight_[i];
    }
    return bias_ + (scales_.empty() ? sum : scales_[static_cast<std::size_t>(t)] * sum);
  }

 private:
  const Matmul::Args& args_;
  std::span<const double> scales_;
  const MatmulOutput& output_;
  std::vector<float> row_;
  std::vector<double> weight_;
  double bias_ = 0.0;
};

/// Expands each weight row to float and takes its product with every token's input.
class ReferenceMatmul final : public AnyReference<Matmul> {
 public:
  [[nodiscard]] std::size_t workspace_bytes(std::int64_t, std::int64_t) const override { return 0; }
  [[nodiscard]] MatmulFusions fusions() const override {
    constexpr std::int64_t any = std::numeric_limits<std::int64_t>::max();
    return {any, any, any};
  }

  void run(const Matmul::Args& call, ExecutionContext& context) const override {
    check_arguments(call, fusions());
    Matmul::Args args = call;
    if (call.post_norm != nullptr) {
      add_post_norm(call);
      args.x = call.post_norm->out;
      args.x_stride = call.post_norm->out_stride;
    }
    const std::vector<double> scales = row_scales(args);
    if (args.gated) {
      for_each_range(context, args.outputs[0].n, 16,
                     [&](std::int64_t begin, std::int64_t end) { gated_rows(args, scales, begin, end); });
      return;
    }
    for (const MatmulOutput& output : args.outputs) {
      for_each_range(context, output.n, 16,
                     [&](std::int64_t begin, std::int64_t end) { rows(args, scales, output, begin, end); });
    }
  }

 private:
  static void rows(const Matmul::Args& args, std::span<const double> scales, const MatmulOutput& output, std::int64_t begin,
                   std::int64_t end) {
    RowProducts products(args, scales, output);
    for (std::int64_t n = begin; n < end; ++n) {
      products.read(n);
      for (std::int64_t t = 0; t < args.tokens; ++t) {
        float& out = output.out[t * output.stride + n];
        out = static_cast<float>(output.accumulate ? double{out} + products.of(t) : products.of(t));
      }
    }
  }

  static void gated_rows(const Matmul::Args& args, std::span<const double> scales, std::int64_t begin, std::int64_t end) {
    const MatmulOutput& output = args.outputs[0];
    RowProducts gate(args, scales, args.outputs[0]);
    RowProducts up(args, scales, args.outputs[1]);
    for (std::int64_t n = begin; n < end; ++n) {
      gate.read(n);
      up.read(n);
      for (std::int64_t t = 0; t < args.tokens; ++t) {
        output.out[t * output.stride + n] = static_cast<float>(activate(args.activation, gate.of(t)) * up.of(t));
      }
    }
  }
};

}  // namespace

std::unique_ptr<MatmulKernel> make_reference_matmul() { return std::make_unique<ReferenceMatmul>(); }

}  // namespace rocmforge
