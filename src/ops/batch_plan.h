#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ops/embedding.h"
#include "ops/kv_layout.h"
#include "ops/sample.h"

namespace rocmforge {

/// Rows in the memory of the model's device, each of one or more slices as wide as the hidden state (GivenRowsPart), or
/// wider.
struct GivenRows {
  const float* data = nullptr;  ///< [count], rows `stride` elements apart
  std::int64_t stride = 0;
  std::int64_t count = 0;
  const float* on_host = nullptr;  ///< the same in the host's memory, where the model is split
};

/// A LoRA adapter that changes the products of a sequence: what it adds is multiplied by `scale`.
struct AdapterUse {
  std::int32_t adapter = 0;  ///< its id: Model::load_adapter
  float scale = 1.0f;
  std::int32_t from = 0;  ///< the first place of the sequence where it acts

  friend bool operator==(const AdapterUse&, const AdapterUse&) = default;
};

/// One step as a flat batch: the tokens of several sequences one after another. Vectors keep their capacity from step to
/// step.
struct BatchPlan {
  std::vector<std::int32_t> tokens;         ///< [num_tokens]: ids, or EmbeddingRows::drawn_token(r): see Model::forward
  std::vector<std::int32_t> positions;      ///< [num_tokens, position_axes], by which RoPE turns
  std::vector<std::int32_t> sequence_of;    ///< [num_tokens]
  std::vector<std::int32_t> query_offsets;  ///< [num_sequences + 1], starts with 0
  std::vector<std::int32_t> kv_lengths;     ///< [num_sequences], this step included
  std::vector<std::int32_t> block_tables;   ///< [num_groups, num_sequences, max_blocks], unused entries -1
  std::vector<std::int32_t> visible_end;    ///< [num_tokens], or none: RaggedBatch::visible_end
  std::int32_t max_blocks = 0;
  std::int32_t position_axes = 1;  ///< of a token: RaggedBatch::position_axes
  /// 0, or 2, 4 or 8: no sequence has more rows, and decode kernels compute all of them (drafts to verify).
  std::int32_t most_rows = 0;
  std::vector<StateSlots> states;         ///< [num_sequences], or none: the model has no recurrent state
  std::vector<std::int32_t> logit_rows;   ///< rows (indices into tokens) whose logits are wanted, ascending
  std::vector<std::int32_t> raw_rows;     ///< those of logit_rows whose logits Model::raw_logits gives, ascending indices
  std::vector<std::int32_t> hidden_rows;  ///< rows (indices into tokens) whose hidden states are wanted, ascending

  /// [num_sequences], or none: no sequence has an adapter. Those of each sequence, by rising `from`, unchanged until
  /// Model::forward returns.
  std::vector<std::span<const AdapterUse>> adapters;

  // Rows that replace embeddings: token overwritten_rows[i] gets row given_rows[i] of `given`.
  std::vector<std::int32_t> overwritten_rows;  ///< indices into tokens, ascending
  std::vector<std::int32_t> given_rows;        ///< [overwritten_rows]
  GivenRows given{};                           ///< for all of them; unchanged until the step is done

  // The draws on the device: one sample row for each logit row, or none at all.
  std::vector<SampleTokens::Row> sample_rows;
  std::vector<SampleTokens::Adjustment> adjustments;  ///< of all rows
  std::vector<std::uint32_t> masks;                   ///< [num_masks, mask_words]
  std::int32_t mask_words = 0;                        ///< of one mask

  void clear();

  /// Appends a sequence: `new_tokens` go to cells first_cell onwards, which are their positions too; `blocks` cover all of
  /// them. `all_logits` asks for every row's logits, else `last_logits` for the last row's, else none.
  void add_sequence(std::span<const std::int32_t> new_tokens, std::int32_t first_cell, std::span<const std::int32_t> blocks,
                    bool last_logits, bool all_logits = false);

  /// Other positions for the tokens of the sequence added last: [q_len, axes]. Tokens of sequences with fewer axes get their
  /// position on each axis. Where all axes of all tokens agree, one is enough.
  void set_positions(std::span<const std::int32_t> own, std::int32_t axes);

  /// Tokens [first, first + count) of the sequence added last see each other in both directions. Spans of a sequence do not
  /// overlap and come in their order.
  void add_span(std::int32_t first, std::int32_t count);

  /// The blocks of the sequence added last in a further group of pages (1 and higher), as many as in group 0. Blocks that
  /// were given up, at the start, are -1. The tables get the first held block in their place, so that a kernel that reads
  /// them before masking reads finite numbers.
  void add_blocks(std::int32_t group, std::span<const std::int32_t> blocks);

  /// Appends a mask of `words` zero words; the number must be the same for every mask of a step. Valid until the next call.
  std::span<std::uint32_t> add_mask(std::int32_t words);

  /// Appends `count` sequences of one row and KV length 0: padding for a recorded step of a fixed size.
  /// Their rows append nothing and attend to nothing. Only padding may follow.
  void add_padding(std::int32_t count);

  /// Lays out block_tables and visible_end once all sequences are added.
  void finish();

  [[nodiscard]] std::int32_t num_tokens() const { return static_cast<std::int32_t>(tokens.size()); }
  [[nodiscard]] std::int32_t num_sequences() const { return static_cast<std::int32_t>(kv_lengths.size()); }
  /// Groups of pages, each with a block table for every sequence.
  [[nodiscard]] std::int32_t num_groups() const { return num_groups_; }
  [[nodiscard]] std::int32_t num_logit_rows() const { return static_cast<std::int32_t>(logit_rows.size()); }
  [[nodiscard]] std::int32_t num_masks() const {
    return masks.empty() ? 0 : static_cast<std::int32_t>(masks.size()) / mask_words;
  }
  [[nodiscard]] std::int32_t q_len(std::int32_t sequence) const {
    const auto s = static_cast<std::size_t>(sequence);
    return query_offsets[s + 1] - query_offsets[s];
  }

  /// Throws LogicError naming the first array that contradicts the others or points outside the cache, which has
  /// `num_blocks` in each group. `num_slots` is 0 for a model without recurrent state.
  void validate(const std::vector<std::int32_t>& num_blocks, std::int32_t block_tokens, std::int32_t num_slots = 0) const;

  [[nodiscard]] RaggedBatch view() const;

  /// Calls visit() with each array and each number that finish() leaves, apart from `given`: what another process needs of
  /// a step.
  template <class Plan, class Visit>
  static void visit(Plan& plan, const Visit& visit) {
    visit(plan.tokens);
    visit(plan.positions);
    visit(plan.sequence_of);
    visit(plan.query_offsets);
    visit(plan.kv_lengths);
    visit(plan.block_tables);
    visit(plan.visible_end);
    visit(plan.states);
    visit(plan.logit_rows);
    visit(plan.raw_rows);
    visit(plan.hidden_rows);
    visit(plan.overwritten_rows);
    visit(plan.given_rows);
    visit(plan.sample_rows);
    visit(plan.adjustments);
    visit(plan.masks);
    visit(plan.max_blocks);
    visit(plan.position_axes);
    visit(plan.most_rows);
    visit(plan.mask_words);
    visit(plan.num_groups_);
  }

 private:
  /// Gives each token its position on `axes` axes, which has one now.
  void widen_positions(std::int32_t axes);
  void lay_out_spans();
  void validate_spans() const;
  void validate_states(std::int32_t num_slots) const;
  void validate_sequence(std::size_t s, const std::vector<std::int32_t>& num_blocks, std::int32_t block_tokens) const;

  /// A group's blocks of all sequences, until finish() lays out the tables.
  struct GroupBlocks {
    std::vector<std::int32_t> blocks;
    std::vector<std::int32_t> offsets;  ///< [num_sequences + 1] into blocks
  };
  std::vector<GroupBlocks> groups_;  ///< the first num_groups_ are used
  std::int32_t num_groups_ = 1;
  /// Tokens of the step that see each other, and the cell behind the last of them.
  struct Span {
    std::int32_t begin;
    std::int32_t end;
    std::int32_t end_cell;
  };
  std::vector<Span> spans_;
};

}  // namespace rocmforge
