#pragma once

#include <cstdint>

namespace rocmforge {

/// Which sequences of a batch a call computes: all, those with one query row, or those with several.
enum class SequenceRows : std::int32_t { all, single, several };

constexpr bool computes(SequenceRows rows, std::int64_t q_len) {
  return rows == SequenceRows::all || (rows == SequenceRows::single) == (q_len == 1);
}

/// One sequence's part of a ScoreShape.
struct SequenceExtent {
  std::int64_t first_token = 0;  ///< of its row 0, among the query rows of all sequences
  std::int32_t rows = 0;
  std::int32_t keys = 0;
  std::int32_t position = 0;  ///< of row 0 in the sequence: under a causal mask row i sees keys 0 to position + i
};

/// The shape of scores [batch, heads, q_len, kv_len] and of the query rows behind them. Every sequence has q_len rows and
/// kv_len keys; or, with query_offsets and kv_lengths, sequences have their own numbers of rows and keys, and the scores
/// hold the q_len rows of each from first_row on. Scores of rows and keys that a sequence lacks are neither read nor
/// written.
/// Kernels get it by value: on a GPU the arrays are device addresses.
struct ScoreShape {
  std::int32_t batch = 0;
  std::int32_t heads = 1;
  std::int32_t q_len = 0;
  std::int32_t kv_len = 0;
  const std::int32_t* query_offsets = nullptr;  ///< [batch + 1], where each sequence's query rows start
  const std::int32_t* kv_lengths = nullptr;     ///< [batch], none above kv_len
  std::int32_t first_row = 0;
  SequenceRows computed = SequenceRows::all;  ///< other sequences are treated as having no rows

  [[nodiscard]] constexpr std::int64_t rows() const { return std::int64_t{batch} * heads * q_len; }
  [[nodiscard]] constexpr std::int64_t count() const { return rows() * kv_len; }

  [[nodiscard]] constexpr SequenceExtent sequence(std::int64_t s) const {
    if (query_offsets == nullptr) {
      return {s * q_len, q_len, kv_len, kv_len - q_len};
    }
    const std::int32_t all = query_offsets[s + 1] - query_offsets[s];
    const std::int32_t left = computes(computed, all) ? all - first_row : 0;
    const std::int32_t keys = kv_lengths[s];
    return {std::int64_t{query_offsets[s]} + first_row,
            left < 0       ? 0
            : left < q_len ? left
                           : q_len,
            keys, keys - all + first_row};
  }
};

}  // namespace rocmforge
