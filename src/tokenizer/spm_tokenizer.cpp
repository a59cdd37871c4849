#include "tokenizer/spm_tokenizer.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <optional>

#include "base/error.h"
#include "base/log.h"
#include "base/utf8.h"
#include "tokenizer/merge.h"
#include "tokenizer/space_marks.h"

namespace rocmforge {
namespace {

/// Maps scores to unsigned numbers that ascend from the highest score to the lowest.
std::uint32_t priority_of(float score) {
  const auto bits = std::bit_cast<std::uint32_t>(score + 0.0f);  // -0 becomes 0
  const std::uint32_t increasing = (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
  return ~increasing;
}

/// Whether a space follows a character other than a space, which is the end of a word.
bool has_space_inside(std::string_view text) {
  for (std::size_t i = text.find(space_mark); i != std::string_view::npos;
       i = text.find(space_mark, i + space_mark.size())) {
    if (i > 0 && !text.substr(0, i).ends_with(space_mark)) {
      return true;
    }
  }
  return false;
}

}  // namespace

SpmTokenizer::SpmTokenizer(Vocabulary vocabulary) : Tokenizer(std::move(vocabulary)), bytes_(vocabulary_) {
  vocabulary_.scores.resize(vocabulary_.tokens.size(), 0.0f);  // without scores all pairs are alike: the first is merged
  read_tokens();
  drops_leading_space_ = vocabulary_.add_space_prefix.value_or(true);
  adds_bos_ = vocabulary_.add_bos.value_or(true) && vocabulary_.bos >= 0;
  adds_eos_ = vocabulary_.add_eos.value_or(false) && vocabulary_.eos >= 0;
}

void SpmTokenizer::read_tokens() {
  for (std::int32_t id = 0; id < size(); ++id) {
    const std::string_view text = vocabulary_.tokens[static_cast<std::size_t>(id)];
    const float score = vocabulary_.scores[static_cast<std::size_t>(id)];
    if (std::isnan(score)) {
      throw Error("the score of token " + std::to_string(id) + " is not a number");
    }
    priorities_.push_back(priority_of(score));
    if (find_mergeable(text) == id) {
      longest_ = std::max(longest_, text.size());
      words_are_apart_ = words_are_apart_ && !has_space_inside(text);
    }
  }
  unknown_ = text_unknown();
  if (unknown_ < 0 && !bytes_.are_all()) {
    log_warning("the vocabulary has neither all bytes nor an unknown token; characters outside it are lost");
  }
}

void SpmTokenizer::encode_text(std::string_view text, WorkBudget* budget, std::vector<std::int32_t>& ids) const {
  // This is called for the start of the text and after special tokens. There the tokenizer adds a space of its own.
  std::string marked;
  if (drops_leading_space_) {
    marked.append(space_mark);
  }
  append_marked(marked, text);
  const std::string_view all = marked;
  std::size_t begin = 0;
  for (std::size_t end = all.find(space_mark, 1); words_are_apart_ && end != std::string_view::npos;
       end = all.find(space_mark, end + space_mark.size())) {
    // No token contains the end of a word, so words can be merged one by one with a short queue.
    if (!all.substr(begin, end - begin).ends_with(space_mark)) {
      encode_stretch(all.substr(begin, end - begin), budget, ids);
      begin = end;
    }
  }
  encode_stretch(all.substr(begin), budget, ids);
}

void SpmTokenizer::encode_stretch(std::string_view text, WorkBudget* budget, std::vector<std::int32_t>& ids) const {
  std::vector<MergeSymbol> symbols;
  for (std::size_t position = 0; position < text.size();) {
    const Utf8Unit unit = utf8_unit(text, position);
    append_symbol(symbols, position, unit.length, find_mergeable(text.substr(position, unit.length)));
    position += unit.length;
  }
  merge_symbols(symbols, budget,
                [this, text](const MergeSymbol& left, const MergeSymbol& right) -> std::optional<MergeResult> {
                  const std::size_t length = left.length + right.length;
                  const std::int32_t id = length <= longest_ ? find_mergeable(text.substr(left.begin, length)) : -1;
                  return id < 0 ? std::nullopt : std::optional(MergeResult{priorities_[static_cast<std::size_t>(id)], id});
                });
  bool after_unknown = false;
  for (std::int32_t i = 0; i >= 0; i = symbols[static_cast<std::size_t>(i)].next) {
    const MergeSymbol& symbol = symbols[static_cast<std::size_t>(i)];
    if (symbol.value >= 0) {
      ids.push_back(symbol.value);
      after_unknown = false;
      continue;
    }
    const bool is_known = bytes_.append(text.substr(symbol.begin, symbol.length), ids);
    if (!is_known && !after_unknown && unknown_ >= 0) {
      ids.push_back(unknown_);
    }
    after_unknown = !is_known;
  }
}

std::string SpmTokenizer::ordinary_bytes(std::int32_t id) const {
  const std::string_view text = vocabulary_.tokens[static_cast<std::size_t>(id)];
  return type(id) == TokenType::byte ? std::string(1, static_cast<char>(byte_of(text))) : unmarked(text);
}

}  // namespace rocmforge
