#include "tokenizer/prefix_trie.h"

#include <algorithm>
#include <limits>

#include "base/error.h"

namespace rocmforge {

PrefixTrie::PrefixTrie(std::vector<Entry> entries) : nodes_(1), bytes_(1) {
  std::erase_if(entries, [](const Entry& entry) { return entry.first.empty(); });
  std::ranges::sort(entries);
  struct Range {
    std::size_t begin, end;
  };
  // Breadth first: the entries of node n, which agree in their first bytes, are ranges[n].
  std::vector<Range> ranges{{0, entries.size()}};
  std::size_t level_end = 1;
  std::size_t depth = 0;
  for (std::size_t n = 0; n < nodes_.size(); ++n) {
    if (n == level_end) {
      level_end = nodes_.size();
      ++depth;
    }
    auto [begin, end] = ranges[n];
    if (begin < end && entries[begin].first.size() == depth) {
      nodes_[n].id = entries[begin].second;
      while (begin < end && entries[begin].first.size() == depth) {
        ++begin;
      }
    }
    nodes_[n].first_child = static_cast<std::int32_t>(nodes_.size());
    while (begin < end) {
      const auto byte = static_cast<unsigned char>(entries[begin].first[depth]);
      const std::size_t first = begin;
      while (begin < end && static_cast<unsigned char>(entries[begin].first[depth]) == byte) {
        ++begin;
      }
      ranges.push_back({first, begin});
      nodes_.emplace_back();
      bytes_.push_back(byte);
      ++nodes_[n].children;
    }
    if (nodes_.size() > static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max())) {
      throw Error("the texts of the tokens are too long for one vocabulary");
    }
  }
}

std::int32_t PrefixTrie::child(std::int32_t node, char byte) const {
  const Node& parent = nodes_[static_cast<std::size_t>(node)];
  const auto begin = bytes_.begin() + parent.first_child, end = begin + parent.children;
  const auto found = std::lower_bound(begin, end, static_cast<unsigned char>(byte));
  return found != end && *found == static_cast<unsigned char>(byte) ? static_cast<std::int32_t>(found - bytes_.begin()) : -1;
}

}  // namespace rocmforge
