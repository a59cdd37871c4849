#pragma once

#include <span>
#include <vector>

#include "conformance/harness.h"
#include "conformance/paged_batch.h"

namespace rocmforge::test {

/// The form in which a kernel gets a problem.
struct AttentionCall {
  std::int32_t block_tokens = 0;  ///< 0: the kernel's default
  std::uint64_t block_seed = 1;
  bool dense = false;        ///< K and V as plain tensors
  bool heads_first = false;  ///< dense K and V as [sequences, kv_heads, kv_len, head_dim]
  std::int32_t padding = 0;  ///< sequences of KV length 0 at the end; none for the CPU
  std::int64_t q_extra = 0;  ///< elements between two rows of q
  Attention::Rows rows = Attention::Rows::all;
  std::vector<SpanOfRows> spans{};            ///< when Spec::spans
  const ExecutionContext* context = nullptr;  ///< in place of the harness's, on the CPU
};

/// An attention problem: inputs, and runs of any kernel on them.
class AttentionProblem {
 public:
  AttentionProblem(const Attention::Spec& spec, std::vector<SequenceShape> shapes, std::uint64_t seed, float spread = 1.5f);

  /// The output [tokens, q_heads * out_dim()] of all queries in one call; NaN where the kernel wrote nothing.
  [[nodiscard]] std::vector<float> run(const AttentionBackend& kernel, const AttentionCall& call = {}) const;
  [[nodiscard]] std::vector<float> run_reference(const AttentionCall& call = {}) const;
  /// `rows` rows of the reference's output, chosen evenly; compare them with pick().
  [[nodiscard]] std::vector<float> run_reference_of_rows(std::int32_t rows) const;
  [[nodiscard]] std::vector<float> pick(std::span<const float> all, std::int32_t rows) const;

  /// Elements of a row of q, and of a row of the output.
  [[nodiscard]] std::int64_t width() const { return std::int64_t{spec.q_heads} * spec.head_dim; }
  [[nodiscard]] std::int64_t out_width() const { return std::int64_t{spec.q_heads} * spec.out_dim(); }
  [[nodiscard]] std::int64_t tokens() const { return std::int64_t(q.size()) / width(); }

  Attention::Spec spec;
  std::vector<SequenceShape> shapes;
  std::vector<float> q;  ///< [tokens, q_heads * head_dim], rounded to Spec::io_dtype
  PagedSequences kv;
  std::vector<float> sinks;
  std::vector<float> mask;  ///< [tokens, mask_stride] when Spec::mask
  std::int64_t mask_stride = 0;
};

/// Runs a kernel on part of a problem: sequences and rows chosen by the caller, K and V present up to each kv_len only.
std::vector<float> run_attention(const AttentionBackend& kernel, const AttentionProblem& problem, PagedCache& cache,
                                 std::span<const SequenceShape> shapes, std::span<const float> q,
                                 const AttentionCall& call = {});

std::vector<std::int32_t> kv_lengths(std::span<const SequenceShape> shapes);

/// The largest relative error of a kernel's result. The CPU computes in float whatever K and V are stored as.
double attention_tolerance(const Attention::Spec& spec, DeviceKind device);

}  // namespace rocmforge::test
