#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "models/parts/operation.h"

namespace rocmforge {

/// The buffers of a step (Buffers), in the order in which they lie in the workspace.
enum class BufferName {
  hidden,
  sums,
  partial,
  normed,
  projected,
  gathered,
  per_layer,
  features,
  streams,
  experts,
  expert_weights,
  route_state,
  slot_order,
  own_logits,
  logits,
  scratch,
  sampled,
  probabilities,
  prompt_attention_state,
  single_attention_state,
  count
};

/// The sizes of a step's buffers. Each part of a model asks for what it needs while it lives; as the parts of a step run one
/// after another, a buffer gets the most that any of them asks for.
class BufferPlan {
 public:
  /// For steps of up to `tokens` tokens with `logit_rows` rows of logits.
  BufferPlan(std::int64_t tokens, std::int64_t logit_rows) : tokens_(tokens), logit_rows_(logit_rows) {}

  [[nodiscard]] std::int64_t tokens() const { return tokens_; }
  [[nodiscard]] std::int64_t logit_rows() const { return logit_rows_; }

  /// `width` elements of four bytes for each token.
  void need(BufferName name, std::int64_t width) { need_rows(name, tokens_, width); }
  void need_rows(BufferName name, std::int64_t rows, std::int64_t width);
  void need_bytes(BufferName name, std::size_t size_bytes);
  /// As need(), of `projected` or `gathered`, for a row that is written or read after the wanted rows have been gathered.
  /// These are at most half of a step's tokens, and the two buffers change places then: the other one gets half of the
  /// width.
  void need_after_gather(BufferName name, std::int64_t width);

  /// Bytes of the workspace that holds all buffers.
  [[nodiscard]] std::size_t size_bytes() const;
  /// The buffers in a workspace of size_bytes(), aligned as GPU kernels may expect.
  [[nodiscard]] Buffers place(std::byte* workspace) const;
  /// `buffers` as rows from `row` on see them: what each token has begins behind that of the rows before.
  [[nodiscard]] Buffers behind(Buffers buffers, std::int64_t row) const;

 private:
  using Sizes = std::array<std::size_t, static_cast<std::size_t>(BufferName::count)>;
  /// Offsets, and the end.
  [[nodiscard]] std::pair<Sizes, std::size_t> lay_out() const;

  std::int64_t tokens_;
  std::int64_t logit_rows_;
  Sizes sizes_{};
};

}  // namespace rocmforge
