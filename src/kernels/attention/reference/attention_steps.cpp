#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "kernels/attention/kernels.h"
#include "kernels/formats/reference/kv_element.h"
#include "kernels/launch/parallel.h"
#include "kernels/launch/reference_kernel.h"

namespace rocmforge {
namespace {

/// One row of the scores of one sequence.
struct ScoreRow {
  std::int64_t index;  ///< among the rows of the scores
  std::int64_t sequence;
  std::int32_t head;
  std::int32_t row;  ///< among the sequence's rows of scores
  SequenceExtent extent;

  /// The row's index among the query rows of all sequences.
  [[nodiscard]] std::int64_t token() const { return extent.first_token + row; }
};

template <class Body>
void for_each_row(const ScoreShape& shape, ExecutionContext& context, const Body& body) {
  for_each_range(context, shape.rows(), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t index = begin; index < end; ++index) {
      const std::int64_t matrix = index / shape.q_len;
      const std::int64_t sequence = matrix / shape.heads;
      const ScoreRow at{index, sequence, static_cast<std::int32_t>(matrix % shape.heads),
                        static_cast<std::int32_t>(index % shape.q_len), shape.sequence(sequence)};
      if (at.row < at.extent.rows) {
        body(at);
      }
    }
  });
}

class ReferenceReplicateKv final : public AnyReference<ReplicateKv> {
 public:
  void run(const ReplicateKv::Spec& spec, const ReplicateKv::Args& args, ExecutionContext&) const override {
    check_arguments(spec, args);
    const RaggedBatch tables{.block_tables = args.block_tables, .max_blocks = args.max_blocks};
    const KvSource kv{spec.layout, args.cache, args.dense, tables};
    const std::int32_t group = spec.q_heads / spec.layout.kv_heads;
    for (std::int32_t s = 0; s < args.shape.batch; ++s) {
      const SequenceExtent extent = args.shape.sequence(s);
      for (std::int32_t key = 0; extent.rows > 0 && key < extent.keys; ++key) {
        for (std::int32_t h = 0; h < args.shape.heads; ++h) {
          const std::int32_t kv_head = (args.first_head + h) / group;
          const std::int64_t to =
              ((std::int64_t{s} * args.shape.kv_len + key) * args.shape.heads + h) * spec.layout.head_dim;
          for (std::int32_t dim = 0; dim < spec.layout.head_dim; ++dim) {
            args.k_out[to + dim] = kv.load(false, s, key, kv_head, dim);
            args.v_out[to + dim] = kv.load(true, s, key, kv_head, dim);
          }
        }
      }
    }
  }
};

class ReferenceQueryKey final : public AnyReference<QueryKey> {
 public:
  void run(const QueryKey::Spec& spec, const QueryKey::Args& args, ExecutionContext& context) const override {
    check_arguments(spec, args);
    const std::int64_t k_stride = std::int64_t{args.shape.heads} * spec.head_dim;
    const std::int64_t q_stride = args.q_stride != 0 ? args.q_stride : k_stride;
    for_each_row(args.shape, context, [&](const ScoreRow& at) {
      const std::int64_t q = at.token() * q_stride + std::int64_t{at.head} * spec.head_dim;
      const float* k = args.k + at.sequence * args.shape.kv_len * k_stride + std::int64_t{at.head} * spec.head_dim;
      for (std::int64_t j = 0; j < at.extent.keys; ++j) {
        double sum = 0.0;
        for (std::int32_t d = 0; d < spec.head_dim; ++d) {
          sum += double{load_element(spec.q_dtype, args.q, q + d)} * double{k[j * k_stride + d]};
        }
        args.scores[at.index * args.shape.kv_len + j] = static_cast<float>(sum * double{args.scale});
      }
    });
  }
};

class ReferenceScale final : public AnyReference<Scale> {
 public:
  void run(const Scale::Spec& spec, const Scale::Args& args, ExecutionContext& context) const override {
    check_arguments(spec, args);
    constexpr std::int64_t grain = 4096;
    const double cap = double{args.soft_cap};
    for_each_range(context, args.count, grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        float& x = args.x[i];
        const std::int64_t column = args.width > 0 ? i % args.width : 0;
        x = cap > 0.0 ? static_cast<float>(cap * std::tanh(double{x} * double{args.factor} / cap)) : x * args.factor;
        x = args.weights != nullptr ? x * args.weights[column] : x;
        x = args.least != nullptr ? std::min(std::max(x, args.least[column]), args.most[column]) : x;
      }
    });
  }
};

class ReferenceCausalMask final : public AnyReference<CausalMask> {
 public:
  void run(const CausalMask::Spec& spec, const CausalMask::Args& args, ExecutionContext& context) const override {
    check_arguments(spec, args);
    for_each_row(args.shape, context, [&](const ScoreRow& at) {
      const std::int64_t position = std::int64_t{at.extent.position} + at.row;
      float* scores = args.scores + at.index * args.shape.kv_len;
      for (std::int64_t j = 0; j < at.extent.keys; ++j) {
        const std::int64_t ahead = args.causal ? 1 : args.window;  // 0: all keys
        if ((ahead > 0 && j >= position + ahead) || (args.window > 0 && j <= position - args.window)) {
          scores[j] = -std::numeric_limits<float>::infinity();
        } else if (args.mask != nullptr) {
          scores[j] += args.mask[at.token() * args.mask_stride + j];
        }
      }
    });
  }
};

class ReferenceRowSoftmax final : public AnyReference<RowSoftmax> {
 public:
  void run(const RowSoftmax::Spec& spec, const RowSoftmax::Args& args, ExecutionContext& context) const override {
    check_arguments(spec, args);
    for_each_row(args.shape, context, [&](const ScoreRow& at) {
      float* begin = args.scores + at.index * args.shape.kv_len;
      float* end = begin + at.extent.keys;
      const double sink = args.sinks != nullptr ? double{args.sinks[at.head]} : -std::numeric_limits<double>::infinity();
      const double maximum =
          std::accumulate(begin, end, sink, [](double most, float score) { return std::max(most, double{score}); });
      if (maximum == -std::numeric_limits<double>::infinity()) {
        std::fill(begin, end, 0.0f);
        return;
      }
      double sum = std::exp(sink - maximum);
      std::for_each(begin, end, [&](float score) { sum += std::exp(double{score} - maximum); });
      std::transform(begin, end, begin,
                     [&](float score) { return static_cast<float>(std::exp(double{score} - maximum) / sum); });
    });
  }
};

class ReferenceWeightsValue final : public AnyReference<WeightsValue> {
 public:
  void run(const WeightsValue::Spec& spec, const WeightsValue::Args& args, ExecutionContext& context) const override {
    check_arguments(spec, args);
    const std::int64_t v_stride = std::int64_t{args.shape.heads} * spec.head_dim;
    const std::int64_t out_stride = args.out_stride != 0 ? args.out_stride : v_stride;
    for_each_row(args.shape, context, [&](const ScoreRow& at) {
      const float* weights = args.weights + at.index * args.shape.kv_len;
      const float* v = args.v + at.sequence * args.shape.kv_len * v_stride + std::int64_t{at.head} * spec.head_dim;
      const std::int64_t out = at.token() * out_stride + std::int64_t{at.head} * spec.head_dim;
      for (std::int32_t d = 0; d < spec.head_dim; ++d) {
        double sum = 0.0;
        for (std::int64_t j = 0; j < at.extent.keys; ++j) {
          sum += double{weights[j]} * double{v[j * v_stride + d]};
        }
        store_element(spec.out_dtype, args.out, out + d, static_cast<float>(sum));
      }
    });
  }
};

}  // namespace

std::unique_ptr<OpKernel<ReplicateKv>> make_reference_replicate_kv() { return std::make_unique<ReferenceReplicateKv>(); }
std::unique_ptr<OpKernel<QueryKey>> make_reference_query_key() { return std::make_unique<ReferenceQueryKey>(); }
std::unique_ptr<OpKernel<Scale>> make_reference_scale() { return std::make_unique<ReferenceScale>(); }
std::unique_ptr<OpKernel<CausalMask>> make_reference_causal_mask() { return std::make_unique<ReferenceCausalMask>(); }
std::unique_ptr<OpKernel<RowSoftmax>> make_reference_row_softmax() { return std::make_unique<ReferenceRowSoftmax>(); }
std::unique_ptr<OpKernel<WeightsValue>> make_reference_weights_value() { return std::make_unique<ReferenceWeightsValue>(); }

}  // namespace rocmforge
