// Attention as plain as it can be written: one score, one row's softmax and one output element a thread, in double, with
// nothing shared. Tuned kernels are compared with it at any size on the device itself.

#include "kernels/check/attention_args.h"
#include "kernels/check/page_element.h"

namespace rocmforge::check_kernels {
namespace {

using gpu::SequenceRange;

/// A row of the step: its sequence, and the keys that it sees.
struct Row {
  int token;
  int sequence;
  int kv_len;
  gpu::KeyRange seen;
  bool computed;
};

__device__ Row row_at(const AttentionCheckArgs& args, std::int64_t index) {
  Row row{};
  row.token = args.first_row + static_cast<int>(index);
  row.sequence = args.call.sequence_of[row.token];
  const SequenceRange range = gpu::sequence_range(args.call, row.sequence);
  row.computed = range.q_len > 0;
  row.kv_len = range.kv_len;
  const int position = range.kv_len - range.q_len + row.token - range.first_row;
  row.seen = args.visible_end != nullptr
                 ? gpu::visible_keys(args.call, gpu::SpanEnds{args.visible_end}, row.token, position, range.kv_len)
                 : gpu::visible_keys(args.call, position, range.kv_len);
  return row;
}

__device__ int kv_head_of(const AttentionCheckArgs& args, int head) {
  return head / (args.call.q_heads / args.call.kv_heads);
}

/// Element `dim` of K or V at position `key`.
__device__ double kv_element(const AttentionCheckArgs& args, bool value, const Row& row, int key, int kv_head, int dim) {
  if (args.pages.data != nullptr) {
    return static_cast<double>(
        gpu::coded_element(args.pages, value ? args.pages.v : args.pages.k, row.sequence, key, kv_head, dim));
  }
  const void* const base = value && args.is_latent == 0 ? args.call.kv.v : args.call.kv.k;
  return page_element(args.call.kv, args.kv_dtype, base, row.sequence, key, kv_head, dim);
}

__device__ double score_of(const AttentionCheckArgs& args, const Row& row, int head, int key) {
  const gpu::AttentionArgs& call = args.call;
  const int kv_head = kv_head_of(args, head);
  const std::int64_t q = row.token * call.q_stride + std::int64_t{head} * call.head_dim;
  double sum = 0.0;
  for (int dim = 0; dim < call.head_dim; ++dim) {
    sum +=
        static_cast<double>(gpu::load_io(call.q, call.io_dtype, q + dim)) * kv_element(args, false, row, key, kv_head, dim);
  }
  sum *= args.scale;
  if (args.soft_cap > 0.0) {
    sum = args.soft_cap * tanh(sum / args.soft_cap);
  }
  return call.mask != nullptr ? sum + static_cast<double>(call.mask[row.token * call.mask_stride + key]) : sum;
}

}  // namespace

ROCMFORGE_CHECK_KERNEL check_scores(AttentionCheckArgs args) {
  const std::int64_t count = std::int64_t{args.num_rows} * args.call.q_heads * args.max_kv_len;
  for_each_element(count, [&](std::int64_t i) {
    const int key = static_cast<int>(i % args.max_kv_len);
    const int head = static_cast<int>(i / args.max_kv_len % args.call.q_heads);
    const Row row = row_at(args, i / args.max_kv_len / args.call.q_heads);
    const bool seen = row.computed && key >= row.seen.begin && key < row.seen.end;
    args.scores[i] = seen ? score_of(args, row, head, key) : -infinite;
  });
}

ROCMFORGE_CHECK_KERNEL check_softmax(AttentionCheckArgs args) {
  for_each_element(std::int64_t{args.num_rows} * args.call.q_heads, [&](std::int64_t i) {
    double* const scores = args.scores + i * args.max_kv_len;
    const double sink = args.call.sinks != nullptr ? static_cast<double>(args.call.sinks[i % args.call.q_heads]) : -infinite;
    double largest = sink;
    for (int key = 0; key < args.max_kv_len; ++key) {
      largest = fmax(largest, scores[key]);
    }
    double total = sink > -infinite ? exp(sink - largest) : 0.0;
    for (int key = 0; key < args.max_kv_len; ++key) {
      scores[key] = scores[key] > -infinite ? exp(scores[key] - largest) : 0.0;
      total += scores[key];
    }
    for (int key = 0; key < args.max_kv_len; ++key) {
      scores[key] = total > 0.0 ? scores[key] / total : 0.0;
    }
  });
}

ROCMFORGE_CHECK_KERNEL check_values(AttentionCheckArgs args) {
  const int heads = args.call.q_heads;
  for_each_element(std::int64_t{args.num_rows} * heads * args.out_dim, [&](std::int64_t i) {
    const int dim = static_cast<int>(i % args.out_dim);
    const int head = static_cast<int>(i / args.out_dim % heads);
    const Row row = row_at(args, i / args.out_dim / heads);
    if (!row.computed) {
      return;
    }
    const double* const weights = args.scores + i / args.out_dim * args.max_kv_len;
    double sum = 0.0;
    for (int key = row.seen.begin; key < row.seen.end; ++key) {
      if (weights[key] > 0.0) {  // the value of a masked key does not matter, not even when it is not a number
        sum += weights[key] * kv_element(args, true, row, key, kv_head_of(args, head), dim);
      }
    }
    gpu::store_io(args.call.out, args.call.io_dtype, (std::int64_t{row.token} * heads + head) * args.out_dim + dim,
                  static_cast<float>(sum));
  });
}

}  // namespace rocmforge::check_kernels
