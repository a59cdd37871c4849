#pragma once

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace rocmforge {

/// The tokens that are recognised in raw text before it is cut and merged, as a trie over their bytes. A search costs at
/// most the length of the longest token for each byte of text.
class SpecialTokens {
 public:
  SpecialTokens() : nodes_(1) {}

  /// `always`: the token is recognised even when control tokens are not (user-defined tokens). If several tokens have the
  /// same text, the first id is kept.
  void add(std::string_view text, std::int32_t id, bool always);

  struct Match {
    std::size_t begin = std::string_view::npos;  ///< npos: no match
    std::size_t length = 0;
    std::int32_t id = -1;
  };
  /// The leftmost match at or after `from`; the longest match among those that begin there.
  [[nodiscard]] Match find(std::string_view text, std::size_t from, bool parse_special) const;

 private:
  struct Node {
    std::int32_t id = -1;
    bool always = false;
    std::vector<std::pair<unsigned char, std::int32_t>> children;  // in ascending order of the bytes
  };
  [[nodiscard]] std::int32_t child(std::int32_t node, unsigned char byte) const;

  std::vector<Node> nodes_;
};

}  // namespace rocmforge
