#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ops/kv_layout.h"

namespace rocmforge {

/// One step, flat: tokens of several sequences one after another. Vectors keep their capacity from step to step.
struct BatchPlan {
  std::vector<std::int32_t> tokens;         ///< [num_tokens]
  std::vector<std::int32_t> positions;      ///< [num_tokens]
  std::vector<std::int32_t> sequence_of;    ///< [num_tokens]
  std::vector<std::int32_t> query_offsets;  ///< [num_sequences + 1], starts with 0
  std::vector<std::int32_t> kv_lengths;     ///< [num_sequences], this step included
  std::vector<std::int32_t> block_tables;   ///< [num_sequences, max_blocks], unused entries -1
  std::int32_t max_blocks = 0;
  std::vector<std::int32_t> logit_rows;  ///< rows (indices into tokens) whose logits are wanted, ascending

  void clear();

  /// Appends a sequence: `new_tokens` go to positions first_position onwards; `blocks` cover all of them.
  /// `all_logits` asks for every row's logits, else `last_logits` for the last row's, else none.
  void add_sequence(std::span<const std::int32_t> new_tokens, std::int32_t first_position,
                    std::span<const std::int32_t> blocks, bool last_logits, bool all_logits = false);

  /// Lays out block_tables once all sequences are added.
  void finish();

  [[nodiscard]] std::int32_t num_tokens() const { return static_cast<std::int32_t>(tokens.size()); }
  [[nodiscard]] std::int32_t num_sequences() const { return static_cast<std::int32_t>(kv_lengths.size()); }

  /// Throws LogicError naming the first array that contradicts the others or reaches outside the cache.
  void validate(std::int64_t num_blocks, std::int32_t block_tokens) const;

  [[nodiscard]] RaggedBatch view() const;

 private:
  std::vector<std::int32_t> blocks_;         ///< of all sequences, until finish() lays out the table
  std::vector<std::int32_t> block_offsets_;  ///< [num_sequences + 1] into blocks_
};

}  // namespace rocmforge
