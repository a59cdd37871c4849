// The steps of attention as plain as they can be written: one result a thread, or one row of a softmax, in double.

#include "kernels/check/attention_steps_args.h"
#include "kernels/check/page_element.h"

namespace rocmforge::check_kernels {
namespace {

/// A row of the scores.
struct ScoreRow {
  std::int64_t sequence;
  std::int32_t head;
  std::int32_t row;  ///< among the sequence's rows of scores
  SequenceExtent extent;

  [[nodiscard]] __device__ bool exists() const { return row < extent.rows; }
  /// Among the query rows of all sequences.
  [[nodiscard]] __device__ std::int64_t token() const { return extent.first_token + row; }
};

__device__ ScoreRow score_row(const ScoreShape& shape, std::int64_t index) {
  const std::int64_t matrix = index / shape.q_len;
  const std::int64_t sequence = matrix / shape.heads;
  return {sequence, static_cast<std::int32_t>(matrix % shape.heads), static_cast<std::int32_t>(index % shape.q_len),
          shape.sequence(sequence)};
}

/// Where element 0 of a head's K or V lies: [batch, kv_len, heads, head_dim].
__device__ std::int64_t head_at(const ScoreShape& shape, std::int64_t sequence, std::int64_t key, std::int32_t head,
                                std::int32_t head_dim) {
  return ((sequence * shape.kv_len + key) * shape.heads + head) * head_dim;
}

}  // namespace

ROCMFORGE_CHECK_KERNEL check_replicate(ReplicateCheckArgs args) {
  const ScoreShape& shape = args.shape;
  for_each_element(std::int64_t{shape.batch} * shape.kv_len * shape.heads * args.head_dim, [&](std::int64_t i) {
    const auto dim = static_cast<int>(i % args.head_dim);
    const auto head = static_cast<int>(i / args.head_dim % shape.heads);
    const std::int64_t token = i / args.head_dim / shape.heads;
    const auto key = static_cast<int>(token % shape.kv_len);
    const auto sequence = static_cast<int>(token / shape.kv_len);
    const SequenceExtent extent = shape.sequence(sequence);
    if (extent.rows == 0 || key >= extent.keys) {
      return;
    }
    const int kv_head = (args.first_head + head) / args.group;
    if (args.pages.data != nullptr) {
      args.k_out[i] = gpu::coded_element(args.pages, args.pages.k, sequence, key, kv_head, dim);
      args.v_out[i] = gpu::coded_element(args.pages, args.pages.v, sequence, key, kv_head, dim);
      return;
    }
    args.k_out[i] = static_cast<float>(page_element(args.kv, args.kv_dtype, args.kv.k, sequence, key, kv_head, dim));
    args.v_out[i] = static_cast<float>(page_element(args.kv, args.kv_dtype, args.kv.v, sequence, key, kv_head, dim));
  });
}

ROCMFORGE_CHECK_KERNEL check_query_key(QueryKeyCheckArgs args) {
  const ScoreShape& shape = args.shape;
  for_each_element(shape.count(), [&](std::int64_t i) {
    const std::int64_t key = i % shape.kv_len;
    const ScoreRow at = score_row(shape, i / shape.kv_len);
    if (!at.exists() || key >= at.extent.keys) {
      return;
    }
    const std::int64_t q = at.token() * args.q_stride + std::int64_t{at.head} * args.head_dim;
    const float* const k = args.k + head_at(shape, at.sequence, key, at.head, args.head_dim);
    double sum = 0.0;
    for (int dim = 0; dim < args.head_dim; ++dim) {
      sum += static_cast<double>(gpu::load_io(args.q, args.q_dtype, q + dim)) * static_cast<double>(k[dim]);
    }
    args.scores[i] = static_cast<float>(sum * args.scale);
  });
}

ROCMFORGE_CHECK_KERNEL check_scale(ScaleCheckArgs args) {
  for_each_element(args.count, [&](std::int64_t i) {
    const std::int64_t column = args.width > 0 ? i % args.width : 0;
    double x = static_cast<double>(args.x[i]) * args.factor;
    x = args.soft_cap > 0.0 ? args.soft_cap * tanh(x / args.soft_cap) : x;
    x = args.weights != nullptr ? x * static_cast<double>(args.weights[column]) : x;
    if (args.least != nullptr) {
      x = fmin(fmax(x, static_cast<double>(args.least[column])), static_cast<double>(args.most[column]));
    }
    args.x[i] = static_cast<float>(x);
  });
}

ROCMFORGE_CHECK_KERNEL check_mask(MaskCheckArgs args) {
  const ScoreShape& shape = args.shape;
  for_each_element(shape.count(), [&](std::int64_t i) {
    const std::int64_t key = i % shape.kv_len;
    const ScoreRow at = score_row(shape, i / shape.kv_len);
    if (!at.exists() || key >= at.extent.keys) {
      return;
    }
    const std::int64_t position = std::int64_t{at.extent.position} + at.row;
    const std::int64_t ahead = args.causal != 0 ? 1 : args.window;  // 0: all keys
    const bool is_later = ahead > 0 && key >= position + ahead;
    const bool is_behind_window = args.window > 0 && key <= position - args.window;
    if (is_later || is_behind_window) {
      args.scores[i] = static_cast<float>(-infinite);
    } else if (args.mask != nullptr) {
      args.scores[i] = static_cast<float>(static_cast<double>(args.scores[i]) +
                                          static_cast<double>(args.mask[at.token() * args.mask_stride + key]));
    }
  });
}

ROCMFORGE_CHECK_KERNEL check_row_softmax(RowSoftmaxCheckArgs args) {
  const ScoreShape& shape = args.shape;
  for_each_element(shape.rows(), [&](std::int64_t i) {
    const ScoreRow at = score_row(shape, i);
    if (!at.exists()) {
      return;
    }
    float* const scores = args.scores + i * shape.kv_len;
    const double sink = args.sinks != nullptr ? static_cast<double>(args.sinks[at.head]) : -infinite;
    double largest = sink;
    for (int key = 0; key < at.extent.keys; ++key) {
      largest = fmax(largest, static_cast<double>(scores[key]));
    }
    const auto share = [&](double score) { return score > -infinite ? exp(score - largest) : 0.0; };
    double total = share(sink);
    for (int key = 0; key < at.extent.keys; ++key) {
      total += share(static_cast<double>(scores[key]));
    }
    for (int key = 0; key < at.extent.keys; ++key) {
      scores[key] = total > 0.0 ? static_cast<float>(share(static_cast<double>(scores[key])) / total) : 0.0f;
    }
  });
}

ROCMFORGE_CHECK_KERNEL check_weights_value(WeightsValueCheckArgs args) {
  const ScoreShape& shape = args.shape;
  for_each_element(shape.rows() * args.head_dim, [&](std::int64_t i) {
    const auto dim = static_cast<int>(i % args.head_dim);
    const std::int64_t index = i / args.head_dim;
    const ScoreRow at = score_row(shape, index);
    if (!at.exists()) {
      return;
    }
    const float* const weights = args.weights + index * shape.kv_len;
    double sum = 0.0;
    for (int key = 0; key < at.extent.keys; ++key) {
      sum += static_cast<double>(weights[key]) *
             static_cast<double>(args.v[head_at(shape, at.sequence, key, at.head, args.head_dim) + dim]);
    }
    gpu::store_io(args.out, args.out_dtype, at.token() * args.out_stride + std::int64_t{at.head} * args.head_dim + dim,
                  static_cast<float>(sum));
  });
}

}  // namespace rocmforge::check_kernels
