#pragma once

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace rocmforge {

/// The texts of tokens by their beginnings: 13 bytes for each different beginning. It is made without recursion in time
/// that grows with the bytes of the texts, times the logarithm of their number.
class PrefixTrie {
 public:
  using Entry = std::pair<std::string_view, std::int32_t>;  ///< a text and its id

  PrefixTrie() : PrefixTrie(std::vector<Entry>()) {}
  /// If several entries have the same text, the lowest id is kept. Empty texts are left out.
  explicit PrefixTrie(std::vector<Entry> entries);

  static constexpr std::int32_t root = 0;
  /// The node of the text that is one byte longer, or -1 when no entry begins with it.
  [[nodiscard]] std::int32_t child(std::int32_t node, char byte) const;
  /// The id of the entry that ends at the node, or -1.
  [[nodiscard]] std::int32_t id(std::int32_t node) const { return nodes_[static_cast<std::size_t>(node)].id; }

 private:
  struct Node {
    std::int32_t id = -1;
    std::int32_t first_child = 0;  ///< the children of a node are neighbours, in ascending order of their bytes
    std::int32_t children = 0;
  };
  std::vector<Node> nodes_;
  std::vector<unsigned char> bytes_;  ///< [nodes]: the last byte of each node's text
};

}  // namespace rocmforge
