#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/arguments.h"
#include "kernels/parallel.h"
#include "kernels/reference/kernels.h"
#include "tensor/quant/dequantize.h"

namespace rocmforge {
namespace {

/// A reference kernel that takes whatever the operation allows.
template <class Op>
class BuildingBlock : public ReferenceKernel<OpKernel<Op>> {
 public:
  [[nodiscard]] Support supports(const typename Op::Spec& spec, const DeviceInfo&) const override {
    return check_spec(spec);
  }
};

class ReferenceResidualAdd final : public BuildingBlock<ResidualAdd> {
 public:
  void run(const ResidualAdd::Spec& spec, const ResidualAdd::Args& args, ExecutionContext&) const override {
    check_arguments(spec, args);
    std::transform(args.a, args.a + args.count, args.b, args.out, std::plus<float>());
  }
};

class ReferenceScale final : public BuildingBlock<Scale> {
 public:
  void run(const Scale::Spec& spec, const Scale::Args& args, ExecutionContext&) const override {
    check_arguments(spec, args);
    std::for_each(args.x, args.x + args.count, [&](float& value) { value *= args.factor; });
  }
};

class ReferenceCausalMask final : public BuildingBlock<CausalMask> {
 public:
  void run(const CausalMask::Spec& spec, const CausalMask::Args& args, ExecutionContext&) const override {
    check_arguments(spec, args);
    for (std::int64_t row = 0; row < args.matrices * args.q_len; ++row) {
      const std::int64_t position = std::int64_t{args.kv_len} - args.q_len + row % args.q_len;
      for (std::int64_t j = 0; j < args.kv_len; ++j) {
        if (j > position || (args.window > 0 && j <= position - args.window)) {
          args.scores[row * args.kv_len + j] = -std::numeric_limits<float>::infinity();
        }
      }
    }
  }
};

class ReferenceRowSoftmax final : public BuildingBlock<RowSoftmax> {
 public:
  void run(const RowSoftmax::Spec& spec, const RowSoftmax::Args& args, ExecutionContext&) const override {
    check_arguments(spec, args);
    for (std::int64_t r = 0; r < args.rows; ++r) {
      float* begin = args.x + r * args.cols;
      float* end = begin + args.cols;
      const double maximum = *std::max_element(begin, end);
      if (maximum == -std::numeric_limits<double>::infinity()) {
        std::fill(begin, end, 0.0f);
        continue;
      }
      double sum = 0.0;
      std::for_each(begin, end, [&](float score) { sum += std::exp(score - maximum); });
      std::transform(begin, end, begin, [&](float score) { return static_cast<float>(std::exp(score - maximum) / sum); });
    }
  }
};

class ReferenceQueryKey final : public BuildingBlock<QueryKey> {
 public:
  void run(const QueryKey::Spec& spec, const QueryKey::Args& args, ExecutionContext& context) const override {
    check_arguments(spec, args);
    const std::int64_t rows = std::int64_t{args.batch} * spec.heads * args.q_len;
    const std::int64_t token_stride = std::int64_t{spec.heads} * spec.head_dim;
    for_each_range(context, rows, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) {
        const std::int64_t i = row % args.q_len;
        const std::int64_t head = row / args.q_len % spec.heads;
        const std::int64_t batch = row / args.q_len / spec.heads;
        const float* q = args.q + (batch * args.q_len + i) * token_stride + head * spec.head_dim;
        for (std::int64_t j = 0; j < args.kv_len; ++j) {
          const float* k = args.k + (batch * args.kv_len + j) * token_stride + head * spec.head_dim;
          double sum = 0.0;
          for (std::int32_t d = 0; d < spec.head_dim; ++d) {
            sum += double{q[d]} * double{k[d]};
          }
          args.scores[row * args.kv_len + j] = static_cast<float>(sum * double{args.scale});
        }
      }
    });
  }
};

class ReferenceWeightsValue final : public BuildingBlock<WeightsValue> {
 public:
  void run(const WeightsValue::Spec& spec, const WeightsValue::Args& args, ExecutionContext& context) const override {
    check_arguments(spec, args);
    const std::int64_t rows = std::int64_t{args.batch} * spec.heads * args.q_len;
    const std::int64_t token_stride = std::int64_t{spec.heads} * spec.head_dim;
    for_each_range(context, rows, 1, [&](std::int64_t begin, std::int64_t end) {
      std::vector<double> sums(static_cast<std::size_t>(spec.head_dim));
      for (std::int64_t row = begin; row < end; ++row) {
        const std::int64_t i = row % args.q_len;
        const std::int64_t head = row / args.q_len % spec.heads;
        const std::int64_t batch = row / args.q_len / spec.heads;
        std::fill(sums.begin(), sums.end(), 0.0);
        for (std::int64_t j = 0; j < args.kv_len; ++j) {
          const double weight = args.weights[row * args.kv_len + j];
          const float* v = args.v + (batch * args.kv_len + j) * token_stride + head * spec.head_dim;
          std::transform(sums.begin(), sums.end(), v, sums.begin(),
                         [&](double sum, float value) { return sum + weight * double{value}; });
        }
        std::transform(sums.begin(), sums.end(), args.out + (batch * args.q_len + i) * token_stride + head * spec.head_dim,
                       [](double sum) { return static_cast<float>(sum); });
      }
    });
  }
};

class ReferenceReplicateKv final : public BuildingBlock<ReplicateKv> {
 public:
  void run(const ReplicateKv::Spec& spec, const ReplicateKv::Args& args, ExecutionContext&) const override {
    check_arguments(spec, args);
    const std::int64_t group = spec.q_heads / spec.kv_heads;
    for (std::int64_t head = 0; head < args.tokens * spec.q_heads; ++head) {
      // Heads of all tokens lie one after another, so that a group never crosses a token.
      const std::int64_t from = head / group * spec.head_dim;
      const std::int64_t to = head * spec.head_dim;
      std::copy_n(args.k + from, spec.head_dim, args.k_out + to);
      std::copy_n(args.v + from, spec.head_dim, args.v_out + to);
    }
  }
};

class ReferenceDequantize final : public BuildingBlock<Dequantize> {
 public:
  void run(const Dequantize::Spec& spec, const Dequantize::Args& args, ExecutionContext&) const override {
    check_arguments(spec, args);
    dequantize_row(spec.dtype, args.rows, args.out, args.count);
  }
};

class ReferenceDequantizeRmsNorm final : public BuildingBlock<DequantizeRmsNorm> {
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

class ReferenceGatherRows final : public BuildingBlock<GatherRows> {
 public:
  void run(const GatherRows::Spec& spec, const GatherRows::Args& args, ExecutionContext&) const override {
    check_arguments(spec, args);
    for (std::int64_t i = 0; i < args.count; ++i) {
      std::copy_n(args.x + args.ids[i] * spec.dim, spec.dim, args.out + i * spec.dim);
    }
  }
};

}  // namespace

std::unique_ptr<OpKernel<ResidualAdd>> make_reference_residual_add() { return std::make_unique<ReferenceResidualAdd>(); }
std::unique_ptr<OpKernel<Scale>> make_reference_scale() { return std::make_unique<ReferenceScale>(); }
std::unique_ptr<OpKernel<CausalMask>> make_reference_causal_mask() { return std::make_unique<ReferenceCausalMask>(); }
std::unique_ptr<OpKernel<RowSoftmax>> make_reference_row_softmax() { return std::make_unique<ReferenceRowSoftmax>(); }
std::unique_ptr<OpKernel<QueryKey>> make_reference_query_key() { return std::make_unique<ReferenceQueryKey>(); }
std::unique_ptr<OpKernel<WeightsValue>> make_reference_weights_value() { return std::make_unique<ReferenceWeightsValue>(); }
std::unique_ptr<OpKernel<ReplicateKv>> make_reference_replicate_kv() { return std::make_unique<ReferenceReplicateKv>(); }
std::unique_ptr<OpKernel<Dequantize>> make_reference_dequantize() { return std::make_unique<ReferenceDequantize>(); }
std::unique_ptr<OpKernel<DequantizeRmsNorm>> make_reference_dequantize_rms_norm() {
  return std::make_unique<ReferenceDequantizeRmsNorm>();
}
std::unique_ptr<OpKernel<GatherRows>> make_reference_gather_rows() { return std::make_unique<ReferenceGatherRows>(); }

}  // namespace rocmforge
