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

/// The merges of a vocabulary. The number of a symbol is the id of its token. Texts of merges that are not tokens have the
/// numbers from `size` on.
class MergeTable {
 public:
  using FindToken = std::function<std::int32_t(std::string_view)>;  ///< the token that text may become, or -1

  MergeTable() = default;
  /// Each merge is "left right"; the first has the highest priority. Throws Error with the number of an entry that is not a
  /// pair.
  MergeTable(const std::vector<std::string>& merges, std::int32_t size, const FindToken& find_token);

  /// The number of a text that is not a token; -1 when no merge contains it.
  [[nodiscard]] std::int32_t other_symbol(std::string_view text) const;
  /// The merge of two neighbours, if there is one. A symbol without a number (-1) has none.
  [[nodiscard]] std::optional<MergeResult> join(const MergeSymbol& left, const MergeSymbol& right) const;

 private:
  std::unordered_map<std::string, std::int32_t> others_;
  PairTable pairs_;
};

}  // namespace rocmforge
