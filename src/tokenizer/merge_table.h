#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tokenizer/merge.h"
#include "tokenizer/pair_table.h"

namespace rocmforge {

/// The merges of a vocabulary. A symbol's number is its token's id, or `size` and up for texts of merges that are no token.
class MergeTable {
 public:
  using FindToken = std::function<std::int32_t(std::string_view)>;  ///< the token that a text may become, or -1

  MergeTable() = default;
  /// `merges`: "left right", the first the most wanted. Throws Error naming one that is no pair.
  MergeTable(const std::vector<std::string>& merges, std::int32_t size, const FindToken& find_token);

  /// Of a text that is no token; -1 where no merge knows it.
  [[nodiscard]] std::int32_t other_symbol(std::string_view text) const;
  /// The merge of two neighbours, of which an unknown one (-1) has none.
  [[nodiscard]] std::optional<MergeResult> join(const MergeSymbol& left, const MergeSymbol& right) const;

 private:
  std::unordered_map<std::string, std::int32_t> others_;
  PairTable pairs_;
};

}  // namespace rocmforge
