#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/attention/kernels.h"
#include "kernels/formats/reference/kv_element.h"
#include "kernels/launch/parallel.h"
#include "kernels/launch/reference_kernel.h"
#include "tensor/quant/dequantize.h"

namespace rocmforge {
namespace {

/// Cosine and sine of each pair at one position, magnitude included. The angle is a product in float, as the models were
/// trained with.
struct PositionTurns {
  std::vector<double> cosine;
  std::vector<double> sine;

  PositionTurns(const LatentAppend::Spec& spec, const float* inverse_frequency, std::int32_t position) {
    const std::int32_t pairs = spec.kind == RopeKind::none ? 0 : spec.n_rot / 2;
    for (std::int32_t p = 0; p < pairs; ++p) {
      const double angle = double{static_cast<float>(position) * inverse_frequency[p]};
      cosine.push_back(std::cos(angle) * double{spec.magnitude});
      sine.push_back(std::sin(angle) * double{spec.magnitude});
    }
  }

  /// From `x` [n_rot] to `out`, which may be x.
  void turn(const LatentAppend::Spec& spec, const float* x, float* out) const {
    for (std::size_t p = 0; p < cosine.size(); ++p) {
      const std::size_t first = spec.kind == RopeKind::adjacent ? 2 * p : p;
      const std::size_t second = spec.kind == RopeKind::adjacent ? 2 * p + 1 : p + cosine.size();
      const double a = double{x[first]};
      const double b = double{x[second]};
      out[first] = static_cast<float>(a * cosine[p] - b * sine[p]);
      out[second] = static_cast<float>(a * sine[p] + b * cosine[p]);
    }
    if (cosine.empty()) {
      std::copy_n(x, spec.n_rot, out);
    }
  }
};

/// Applies the position's temperature to one head's query [q_dim].
void scale_query(const LatentAppend::Spec& spec, std::int32_t position, float* q) {
  if (spec.temperature_scale != 0.0f) {
    const double factor = 1.0 + double{spec.temperature_scale} * std::log(1.0 + position / spec.temperature_length);
    std::transform(q, q + spec.q_dim, q, [factor](float value) { return static_cast<float>(double{value} * factor); });
  }
}

class ReferenceLatentAppend final : public AnyReference<LatentAppend> {
 public:
  void run(const LatentAppend::Spec& spec, const LatentAppend::Args& args, ExecutionContext& context) const override {
    check_arguments(spec, args);
    for_each_range(context, args.batch.num_tokens, 4, [&](std::int64_t begin, std::int64_t end) {
      std::vector<float> row(static_cast<std::size_t>(spec.layout.head_dim));
      for (std::int64_t t = begin; t < end; ++t) {
        append(spec, args, static_cast<std::int32_t>(t), row);
      }
    });
  }

 private:
  static void append(const LatentAppend::Spec& spec, const LatentAppend::Args& args, std::int32_t t,
                     std::vector<float>& row) {
    const std::int32_t position = args.batch.positions[t];
    const PositionTurns turns(spec, args.inverse_frequency, position);
    for (std::int32_t h = 0; h < spec.q_heads; ++h) {
      float* q = args.q + t * args.q_stride + (h + 1) * std::int64_t{spec.q_dim} - spec.n_rot;
      turns.turn(spec, q, q);
      scale_query(spec, position, q + spec.n_rot - spec.q_dim);
    }
    const float* kv = args.kv + t * args.kv_stride;
    const std::int32_t rank = spec.layout.value_dim;
    double sum = 0.0;
    for (std::int32_t i = 0; i < rank; ++i) {
      sum += double{kv[i]} * double{kv[i]};
    }
    const double scale = 1.0 / std::sqrt(sum / rank + double{spec.norm_eps});
    for (std::int32_t i = 0; i < rank; ++i) {
      row[static_cast<std::size_t>(i)] = static_cast<float>(double{kv[i]} * scale * double{args.norm[i]});
    }
    turns.turn(spec, kv + rank, row.data() + rank);
    const std::int32_t sequence = args.batch.sequence_of[t];
    const std::int32_t cell = args.batch.cell(sequence, t);
    kv_head_at(spec.layout, args.cache, args.batch, sequence, cell, false, 0)
        .store(cell % spec.layout.block_tokens, row.data());
  }
};

/// Expands each row of each head to float and takes its product with every token's input.
class ReferenceHeadMatmul final : public AnyReference<HeadMatmul> {
 public:
  void run(const HeadMatmul::Spec& spec, const HeadMatmul::Args& args, ExecutionContext& context) const override {
    check_arguments(spec, args);
    for_each_range(context, spec.heads, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t head = begin; head < end; ++head) {
        multiply(spec, args, head);
      }
    });
  }

 private:
  static void multiply(const HeadMatmul::Spec& spec, const HeadMatmul::Args& args, std::int64_t head) {
    const auto bytes = static_cast<std::int64_t>(row_bytes(spec.weight, spec.k));
    const auto* matrix = static_cast<const std::byte*>(args.weight) + head * args.head_bytes;
    const std::int64_t width = spec.n + spec.tail;
    std::vector<float> values(static_cast<std::size_t>(spec.k));
    const auto input = [&](std::int64_t t) { return args.x + t * args.x_stride + head * (spec.k + spec.tail); };
    const auto output = [&](std::int64_t t) { return args.out + (t * spec.heads + head) * width; };
    for (std::int64_t row = 0; row < spec.n; ++row) {
      dequantize_row(spec.weight, matrix + row * bytes, values.data(), spec.k);
      for (std::int64_t t = 0; t < args.tokens; ++t) {
        double sum = 0.0;
        for (std::int64_t i = 0; i < spec.k; ++i) {
          sum += double{input(t)[i]} * double{values[static_cast<std::size_t>(i)]};
        }
        output(t)[row] = static_cast<float>(sum);
      }
    }
    for (std::int64_t t = 0; t < args.tokens; ++t) {
      std::copy_n(input(t) + spec.k, spec.tail, output(t) + spec.n);
    }
  }
};

}  // namespace

std::unique_ptr<OpKernel<LatentAppend>> make_reference_latent_append() { return std::make_unique<ReferenceLatentAppend>(); }

std::unique_ptr<HeadMatmulKernel> make_reference_head_matmul() { return std::make_unique<ReferenceHeadMatmul>(); }

}  // namespace rocmforge
