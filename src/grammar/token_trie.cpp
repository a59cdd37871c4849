#include "grammar/token_trie.h"

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "base/utf8.h"
#include "grammar/byte_automaton.h"

namespace rocmforge {
namespace {

// Longer tokens occur only in broken vocabularies, and a walk keeps a state for each byte.
constexpr std::size_t longest_token_bytes = 1024;

bool is_plain(std::string_view bytes) {
  std::size_t characters = 0;
  for (std::size_t i = 0; i < bytes.size(); ++characters) {
    const Utf8Unit unit = utf8_unit(bytes, i);
    if (unit.kind != Utf8Unit::Kind::character) {
      return false;
    }
    const char32_t code_point = utf8_code_point(bytes.substr(i, unit.length));
    const auto& plain = ByteAutomaton::plain_characters();
    if (std::none_of(plain.begin(), plain.end(),
                     [&](const CodeRange& range) { return range.first <= code_point && code_point <= range.last; })) {
      return false;
    }
    i += unit.length;
  }
  return characters <= ByteAutomaton::most_plain_steps;
}

}  // namespace

TokenTrie::TokenTrie(const Tokenizer& tokenizer) : end_ids_(tokenizer.end_of_generation_ids()) {
  if (end_ids_.empty()) {
    throw Error("the model has no token that ends generation, so that a constrained text could not stop");
  }
  std::vector<std::int32_t> plain, other;
  plain_mask_.assign((static_cast<std::size_t>(tokenizer.size()) + 31) / 32, 0);
  offsets_.push_back(0);
  for (std::int32_t token = 0; token < tokenizer.size(); ++token) {
    const TokenType type = tokenizer.vocabulary().types[static_cast<std::size_t>(token)];
    // Control tokens that mark an answer's parts have bytes, because grammars of tool calls contain them.
    const bool is_text = type == TokenType::normal || type == TokenType::byte || type == TokenType::user_defined ||
                         type == TokenType::control;
    const std::string text = is_text && !is_end(token) ? tokenizer.token_bytes(token) : "";
    if (!text.empty() && text.size() <= longest_token_bytes) {
      const bool in_plain = is_plain(text);
      (in_plain ? plain : other).push_back(token);
      if (in_plain) {
        plain_mask_[static_cast<std::size_t>(token) / 32] |= 1u << (token % 32);
      }
      longest_ = std::max(longest_, text.size());
      bytes_ += text;
    }
    check(bytes_.size() <= std::numeric_limits<std::uint32_t>::max(), "a vocabulary's bytes can be numbered");
    offsets_.push_back(static_cast<std::uint32_t>(bytes_.size()));
  }
  plain_ = build(std::move(plain));
  other_ = build(std::move(other));
}

TokenTrie::Part TokenTrie::build(std::vector<std::int32_t> tokens) const {
  Part part;
  std::sort(tokens.begin(), tokens.end(), [this](std::int32_t a, std::int32_t b) {
    const int order = bytes(a).compare(bytes(b));
    return order != 0 ? order < 0 : a < b;
  });
  std::vector<std::uint32_t> path;  // the nodes of the bytes so far
  std::string_view last;
  for (const std::int32_t token : tokens) {
    const std::string_view text = bytes(token);
    const auto shared = static_cast<std::size_t>(
        std::mismatch(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(std::min(text.size(), last.size())),
                      last.begin())
            .first -
        text.begin());
    while (path.size() > shared) {
      part.nodes[path.back()].end = static_cast<std::uint32_t>(part.nodes.size());
      path.pop_back();
    }
    while (path.size() < text.size()) {
      const std::size_t depth = path.size();
      path.push_back(static_cast<std::uint32_t>(part.nodes.size()));
      part.nodes.push_back({0, static_cast<std::uint32_t>(part.tokens.size()), static_cast<std::uint16_t>(depth),
                            static_cast<std::uint8_t>(text[depth])});
    }
    part.tokens.push_back(token);
    last = text;
  }
  for (const std::uint32_t node : path) {
    part.nodes[node].end = static_cast<std::uint32_t>(part.nodes.size());
  }
  part.nodes.push_back({0, static_cast<std::uint32_t>(part.tokens.size()), 0, 0});
  return part;
}

bool TokenTrie::is_end(std::int32_t token) const { return std::binary_search(end_ids_.begin(), end_ids_.end(), token); }

}  // namespace rocmforge
