#include "tokenizer/special_tokens.h"

#include <algorithm>

namespace rocmforge {
namespace {

bool before(const std::pair<unsigned char, std::int32_t>& child, unsigned char byte) { return child.first < byte; }

}  // namespace

void SpecialTokens::add(std::string_view text, std::int32_t id, bool always) {
  std::int32_t node = 0;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    std::int32_t next = child(node, byte);
    if (next < 0) {
      next = static_cast<std::int32_t>(nodes_.size());
      nodes_.emplace_back();
      auto& children = nodes_[static_cast<std::size_t>(node)].children;
      children.insert(std::lower_bound(children.begin(), children.end(), byte, before), {byte, next});
    }
    node = next;
  }
  Node& end = nodes_[static_cast<std::size_t>(node)];
  if (node != 0 && end.id < 0) {
    end.id = id;
    end.always = always;
  }
}

std::int32_t SpecialTokens::child(std::int32_t node, unsigned char byte) const {
  const auto& children = nodes_[static_cast<std::size_t>(node)].children;
  const auto found = std::lower_bound(children.begin(), children.end(), byte, before);
  return found != children.end() && found->first == byte ? found->second : -1;
}

SpecialTokens::Match SpecialTokens::find(std::string_view text, std::size_t from, bool parse_special) const {
  for (std::size_t begin = from; begin < text.size(); ++begin) {
    Match match;
    std::int32_t node = 0;
    for (std::size_t end = begin; end < text.size(); ++end) {
      node = child(node, static_cast<unsigned char>(text[end]));
      if (node < 0) {
        break;
      }
      const Node& reached = nodes_[static_cast<std::size_t>(node)];
      if (reached.id >= 0 && (parse_special || reached.always)) {
        match = {begin, end + 1 - begin, reached.id};
      }
    }
    if (match.id >= 0) {
      return match;
    }
  }
  return {};
}

}  // namespace rocmforge
