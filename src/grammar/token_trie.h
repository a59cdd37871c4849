#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "tokenizer/tokenizer.h"

namespace rocmforge {

/// The bytes of all tokens of a vocabulary that can be part of a constrained text, sorted for walks: ordinary, byte and
/// user-defined tokens, without empty ones, control tokens and those that end generation. Immutable; one serves a whole
/// model.
class TokenTrie {
 public:
  /// Throws Error for a vocabulary without a token that ends generation, because a constrained text could never end.
  explicit TokenTrie(const Tokenizer& tokenizer);

  /// Nodes in the order of a depth-first walk.
  struct Node {
    std::uint32_t end = 0;          ///< the first node after this one's descendants
    std::uint32_t first_token = 0;  ///< in `tokens`; the next node's ends them
    std::uint16_t depth = 0;        ///< bytes before this one's
    std::uint8_t byte = 0;
  };
  struct Part {
    std::vector<Node> nodes;  ///< and one behind the last
    std::vector<std::int32_t> tokens;
  };

  /// Tokens of one to ByteAutomaton::most_plain_steps whole plain characters, then the others.
  [[nodiscard]] const Part& plain() const { return plain_; }
  [[nodiscard]] const Part& other() const { return other_; }
  /// [mask_words()], a bit for each token of plain().
  [[nodiscard]] std::span<const std::uint32_t> plain_mask() const { return plain_mask_; }

  [[nodiscard]] std::int32_t size() const { return static_cast<std::int32_t>(offsets_.size()) - 1; }
  [[nodiscard]] std::size_t mask_words() const { return (offsets_.size() - 1 + 31) / 32; }
  [[nodiscard]] std::size_t longest() const { return longest_; }
  /// "" for tokens that are no part of constrained texts.
  [[nodiscard]] std::string_view bytes(std::int32_t token) const {
    const auto index = static_cast<std::size_t>(token);
    return std::string_view(bytes_).substr(offsets_[index], offsets_[index + 1] - offsets_[index]);
  }
  [[nodiscard]] const std::vector<std::int32_t>& end_ids() const { return end_ids_; }
  [[nodiscard]] bool is_end(std::int32_t token) const;

 private:
  [[nodiscard]] Part build(std::vector<std::int32_t> tokens) const;

  std::string bytes_;  // of all tokens, one after another
  std::vector<std::uint32_t> offsets_;
  std::vector<std::int32_t> end_ids_;
  std::size_t longest_ = 0;
  Part plain_, other_;
  std::vector<std::uint32_t> plain_mask_;
};

}  // namespace rocmforge
