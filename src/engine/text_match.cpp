#include "engine/text_match.h"

#include <utility>

#include "base/error.h"

namespace rocmforge {

TextMatch::TextMatch(std::string text) : text_(std::move(text)), borders_(text_.size(), 0) {
  check(!text_.empty(), "a text that is searched is empty");
  for (std::size_t i = 1; i < text_.size(); ++i) {
    borders_[i] = advance(borders_[i - 1], text_[i]);
  }
}

std::size_t TextMatch::advance(std::size_t matched, char byte) const {
  while (matched > 0 && (matched == text_.size() || text_[matched] != byte)) {
    matched = borders_[matched - 1];
  }
  return text_[matched] == byte ? matched + 1 : 0;
}

bool TextMatch::add(char byte) {
  matched_ = advance(matched_, byte);
  return matched_ == text_.size();
}

}  // namespace rocmforge
