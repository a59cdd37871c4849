#include "tokenizer/merge_table.h"

#include "base/error.h"

namespace rocmforge {

MergeTable::MergeTable(const std::vector<std::string>& merges, std::int32_t size, const FindToken& find_token)
    : pairs_(merges.size()) {
  const auto symbol_of = [&](std::string_view text) {
    const std::int32_t id = find_token(text);
    return id >= 0 ? id : others_.emplace(text, size + static_cast<std::int32_t>(others_.size())).first->second;
  };
  for (std::size_t rank = 0; rank < merges.size(); ++rank) {
    const std::string_view merge = merges[rank];
    const std::size_t space = merge.find(' ', 1);
    if (space == std::string_view::npos || space + 1 == merge.size()) {
      throw Error("merge " + std::to_string(rank) + " is '" + std::string(merge) +
                  "', two texts with a space between were expected");
    }
    const std::string_view left = merge.substr(0, space), right = merge.substr(space + 1);
    const std::int32_t first = symbol_of(left), second = symbol_of(right);
    pairs_.add(first, second, static_cast<std::uint32_t>(rank), symbol_of(std::string(left).append(right)));
  }
}

std::int32_t MergeTable::other_symbol(std::string_view text) const {
  const auto found = others_.find(std::string(text));
  return found == others_.end() ? -1 : found->second;
}

std::optional<MergeResult> MergeTable::join(const MergeSymbol& left, const MergeSymbol& right) const {
  const PairTable::Entry* merge = left.value < 0 || right.value < 0 ? nullptr : pairs_.find(left.value, right.value);
  return merge == nullptr ? std::nullopt : std::optional(MergeResult{merge->rank, merge->result});
}

}  // namespace rocmforge
