#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/attention/kernels.h"
#include "kernels/check/arguments/arguments.h"
#include "kernels/formats/reference/kv_element.h"
#include "kernels/launch/parallel.h"
#include "kernels/launch/reference_kernel.h"

namespace rocmforge {
namespace {

class ReferenceAttention final : public AnyReference<Attention> {
 public:
  [[nodiscard]] KvLayout layout(const Attention::Spec& spec) const override {
    return {.dtype = spec.kv_dtype,
            .block_tokens = 32,
            .kv_heads = spec.kv_heads,
            .head_dim = spec.head_dim,
            .value_dim = spec.value_dim};
  }

  [[nodiscard]] std::size_t workspace_bytes(const Attention::Spec&, const AttentionLimits&) const override { return 0; }

  void run(const Attention::Spec& spec, const KvLayout& layout, const Attention::Args& args,
           ExecutionContext& context) const override {
    check_arguments(spec, layout, args);
    for (std::int32_t s = 0; s < args.batch.num_sequences; ++s) {
      const std::int32_t first_row = args.batch.query_offsets[s];
      const std::int32_t q_len = args.batch.query_offsets[s + 1] - first_row;
      if (!computes(args.rows, q_len)) {
        continue;
      }
      const Call call{spec, layout, args, s};
      for_each_range(context, std::int64_t{q_len} * spec.q_heads, 1, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) {
          const auto row = static_cast<std::int32_t>(i / spec.q_heads);
          attend(call, first_row + row, args.batch.kv_lengths[s] - q_len + row, static_cast<std::int32_t>(i % spec.q_heads));
        }
      });
    }
  }

 private:
  /// One sequence of a call.
  struct Call {
    const Attention::Spec& spec;
    const KvLayout& layout;
    const Attention::Args& args;
    std::int32_t sequence;

    [[nodiscard]] double k(std::int32_t key, std::int32_t kv_head, std::int32_t dim) const {
      return double{kv().load(false, sequence, key, kv_head, dim)};
    }
    [[nodiscard]] double v(std::int32_t key, std::int32_t kv_head, std::int32_t dim) const {
      return double{kv().load(true, sequence, key, kv_head, dim)};
    }

   private:
    [[nodiscard]] KvSource kv() const { return {layout, args.cache, args.dense, args.batch}; }
  };

  /// The scaled, capped and masked score of one key.
  static double score(const Call& call, std::int32_t row, std::int32_t head, std::int32_t key) {
    const Attention::Spec& spec = call.spec;
    const std::int32_t kv_head = head / (spec.q_heads / spec.kv_heads);
    const std::int64_t q = row * call.args.q_stride + std::int64_t{head} * spec.head_dim;
    double sum = 0.0;
    for (std::int32_t i = 0; i < spec.head_dim; ++i) {
      sum += double{load_element(spec.io_dtype, call.args.q, q + i)} * call.k(key, kv_head, i);
    }
    sum *= double{attention_scale(spec)};
    const double cap = double{spec.soft_cap};
    sum = cap > 0.0 ? cap * std::tanh(sum / cap) : sum;
    return spec.mask ? sum + double{call.args.mask[row * call.args.mask_stride + key]} : sum;
  }

  /// One query head of one token at `position` of its sequence, which is negative when a causal row sees no key.
  static void attend(const Call& call, std::int32_t row, std::int32_t position, std::int32_t head) {
    const Attention::Spec& spec = call.spec;
    const std::int32_t kv_head = head / (spec.q_heads / spec.kv_heads);
    const std::int32_t kv_len = call.args.batch.kv_lengths[call.sequence];
    const std::int32_t ahead = spec.causal ? 1 : spec.window > 0 ? spec.window : kv_len - position;
    const std::int32_t end = spec.spans ? call.args.batch.visible_end[row] : std::clamp(position + ahead, 0, kv_len);
    const std::int32_t own = spec.chunked ? position % spec.window + 1 : spec.window;  // keys up to the query's
    const std::int32_t first = spec.window > 0 ? std::max(0, position - own + 1) : 0;
    constexpr double none = -std::numeric_limits<double>::infinity();

    std::vector<double> scores;
    double largest = spec.sinks ? double{call.args.sinks[head]} : none;
    for (std::int32_t key = first; key < end; ++key) {
      scores.push_back(score(call, row, head, key));
      largest = std::max(largest, scores.back());
    }

    double total = spec.sinks && largest > none ? std::exp(double{call.args.sinks[head]} - largest) : 0.0;
    const std::int32_t out_dim = spec.out_dim();
    std::vector<double> sum(static_cast<std::size_t>(out_dim), 0.0);
    for (std::int32_t key = first; key < end; ++key) {
      const double key_score = scores[static_cast<std::size_t>(key - first)];
      if (key_score == none) {
        continue;  // a masked key's value does not matter, not even when it is not a number
      }
      const double weight = std::exp(key_score - largest);
      total += weight;
      for (std::int32_t i = 0; i < out_dim; ++i) {
        sum[static_cast<std::size_t>(i)] += weight * call.v(key, kv_head, i);
      }
    }
    std::ranges::transform(sum, sum.begin(), [total](double value) { return total > 0.0 ? value / total : 0.0; });
    if (spec.kv_dtype.v_rotated) {
      turn_by_hadamard(sum.data(), out_dim);
    }
    const std::int64_t out = (std::int64_t{row} * spec.q_heads + head) * out_dim;
    for (std::int32_t i = 0; i < out_dim; ++i) {
      store_element(spec.io_dtype, call.args.out, out + i, static_cast<float>(sum[static_cast<std::size_t>(i)]));
    }
  }
};

}  // namespace

std::unique_ptr<AttentionBackend> make_reference_attention() { return std::make_unique<ReferenceAttention>(); }

}  // namespace rocmforge
