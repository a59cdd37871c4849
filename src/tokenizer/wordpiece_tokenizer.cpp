#include "tokenizer/wordpiece_tokenizer.h"

#include <cstddef>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/utf8.h"
#include "tokenizer/space_marks.h"

namespace rocmforge {

WordPieceTokenizer::WordPieceTokenizer(Vocabulary vocabulary) : Tokenizer(std::move(vocabulary)) {
  if (vocabulary_.separator >= 0) {
    vocabulary_.eos = vocabulary_.separator;
  }
  for (const auto& [id, what] : {std::pair(vocabulary_.bos, "begins a text (cls_token_id)"),
                                 std::pair(vocabulary_.eos, "ends a text (seperator_token_id)"),
                                 std::pair(vocabulary_.unknown, "stands for unknown words (unknown_token_id)")}) {
    if (id < 0) {
      throw Error(std::string("a WordPiece vocabulary needs the token that ") + what + ", there is none");
    }
  }
  normalizer_.lowercase = vocabulary_.lowercase.value_or(true);
  normalizer_.strip_accents = vocabulary_.strip_accents.value_or(normalizer_.lowercase);
  adds_bos_ = adds_eos_ = true;
  drops_leading_space_ = true;
  std::vector<PrefixTrie::Entry> entries;
  for (std::int32_t id = 0; id < size(); ++id) {
    if (const std::string_view text = vocabulary_.tokens[static_cast<std::size_t>(id)]; find_mergeable(text) == id) {
      entries.emplace_back(text, id);
    }
  }
  pieces_ = PrefixTrie(std::move(entries));
}

void WordPieceTokenizer::encode_text(std::string_view text, WorkBudget* budget, std::vector<std::int32_t>& ids) const {
  for_each_bert_word(text, normalizer_, [&](std::u32string_view word) {
    spend(budget, word.size());
    encode_word(word, ids);
  });
}

void WordPieceTokenizer::encode_word(std::u32string_view word, std::vector<std::int32_t>& ids) const {
  constexpr std::size_t longest_word = 100;
  if (word.size() > longest_word) {
    ids.push_back(vocabulary_.unknown);
    return;
  }
  std::string text(space_mark);
  for (const char32_t character : word) {
    append_utf8(text, character);
  }
  const std::size_t before = ids.size();
  for (std::size_t begin = 0; begin < text.size();) {
    std::int32_t best = -1;
    std::size_t best_end = begin;
    std::int32_t node = PrefixTrie::root;
    const bool is_marked = begin > 0 && std::string_view(text).substr(begin).starts_with(space_mark);
    for (std::size_t end = begin; end < text.size() && !is_marked;) {  // a mark in the text begins no word
      node = pieces_.child(node, text[end++]);
      if (node < 0) {
        break;
      }
      if (const std::int32_t id = pieces_.id(node); id >= 0) {
        best = id;
        best_end = end;
      }
    }
    if (best < 0) {
      ids.resize(before);
      ids.push_back(vocabulary_.unknown);
      return;
    }
    ids.push_back(best);
    begin = best_end;
  }
}

std::string WordPieceTokenizer::ordinary_bytes(std::int32_t id) const {
  return unmarked(vocabulary_.tokens[static_cast<std::size_t>(id)]);
}

}  // namespace rocmforge
