#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/arguments.h"
#include "kernels/parallel.h"
#include "kernels/reference/kernels.h"
#include "kernels/reference/kv_element.h"

namespace rocmforge {
namespace {

class ReferenceAttention final : public ReferenceKernel<AttentionBackend> {
 public:
  [[nodiscard]] Support supports(const Attention::Spec& spec, const DeviceInfo&) const override { return check_spec(spec); }

  [[nodiscard]] KvLayout layout(const Attention::Spec& spec) const override {
    return {.dtype = spec.kv_dtype, .block_tokens = 32, .kv_heads = spec.kv_heads, .head_dim = spec.head_dim};
  }

  [[nodiscard]] std::size_t workspace_bytes(const Attention::Spec&, const AttentionLimits&) const override { return 0; }

  void run(const Attention::Spec& spec, const KvLayout& layout, const Attention::Args& args,
           ExecutionContext& context) const override {
    check_arguments(spec, layout, args);
    for (std::int32_t s = 0; s < args.batch.num_sequences; ++s) {
      const std::int32_t first_row = args.batch.query_offsets[s];
      const std::int32_t q_len = args.batch.query_offsets[s + 1] - first_row;
      for_each_range(context, std::int64_t{q_len} * spec.q_heads, 1, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) {
          const auto row = static_cast<std::int32_t>(i / spec.q_heads);
          attend(spec, layout, args, s, first_row + row, args.batch.kv_lengths[s] - q_len + row,
                 static_cast<std::int32_t>(i % spec.q_heads));
        }
      });
    }
  }

 private:
  /// One query head of one token at `position` of sequence `s`.
  static void attend(const Attention::Spec& spec, const KvLayout& layout, const Attention::Args& args, std::int32_t s,
                     std::int32_t row, std::int32_t position, std::int32_t head) {
    const std::int32_t kv_head = head / (spec.q_heads / spec.kv_heads);
    const float* q = static_cast<const float*>(args.q) + row * args.q_stride + std::int64_t{head} * spec.head_dim;
    const std::int32_t first = spec.window > 0 ? std::max(0, position - spec.window + 1) : 0;
    const double scale = double{attention_scale(spec)};
    const double cap = double{spec.soft_cap};

    std::vector<double> scores;
    double largest = spec.sinks ? double{args.sinks[head]} : -std::numeric_limits<double>::infinity();
    for (std::int32_t key = first; key <= position; ++key) {
      const std::int64_t block = kv_block_start(layout, args.batch, s, key) + layout.k_offset(kv_head);
      double score = 0.0;
      for (std::int32_t i = 0; i < spec.head_dim; ++i) {
        const std::int64_t index = block + kv_element(layout, layout.k_order, key % layout.block_tokens, i);
        score += double{q[i]} * double{load_kv(layout, args.cache.data, index)};
      }
      score *= scale;
      score = cap > 0.0 ? cap * std::tanh(score / cap) : score;
      scores.push_back(score);
      largest = std::max(largest, score);
    }

    double total = spec.sinks ? std::exp(double{args.sinks[head]} - largest) : 0.0;
    std::vector<double> sum(static_cast<std::size_t>(spec.head_dim), 0.0);
    for (std::int32_t key = first; key <= position; ++key) {
      const double weight = std::exp(scores[static_cast<std::size_t>(key - first)] - largest);
      const std::int64_t block = kv_block_start(layout, args.batch, s, key) + layout.v_offset(kv_head);
      total += weight;
      for (std::int32_t i = 0; i < spec.head_dim; ++i) {
        const std::int64_t index = block + kv_element(layout, layout.v_order, key % layout.block_tokens, i);
        sum[static_cast<std::size_t>(i)] += weight * double{load_kv(layout, args.cache.data, index)};
      }
    }
    float* out = static_cast<float*>(args.out) + (std::int64_t{row} * spec.q_heads + head) * spec.head_dim;
    for (std::int32_t i = 0; i < spec.head_dim; ++i) {
      out[i] = total > 0.0 ? static_cast<float>(sum[static_cast<std::size_t>(i)] / total) : 0.0f;
    }
  }
};

}  // namespace

std::unique_ptr<AttentionBackend> make_reference_attention() { return std::make_unique<ReferenceAttention>(); }

}  // namespace rocmforge
