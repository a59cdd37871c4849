#include "tokenizer/marked_bpe_tokenizer.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "base/utf8.h"
#include "tokenizer/space_marks.h"

namespace rocmforge {

MarkedBpeTokenizer::MarkedBpeTokenizer(Vocabulary vocabulary) : Tokenizer(std::move(vocabulary)), bytes_(vocabulary_) {
  if (vocabulary_.merges.empty()) {
    throw Error("a BPE vocabulary needs merges, there are none");
  }
  merges_ = MergeTable(vocabulary_.merges, size(), [this](std::string_view text) { return find_mergeable(text); });
  adds_bos_ = vocabulary_.bos >= 0;  // whatever the file says: these models give bad answers without it
  adds_eos_ = vocabulary_.add_eos.value_or(false) && vocabulary_.eos >= 0;
  unknown_ = text_unknown();
  if (unknown_ < 0 && !bytes_.are_all()) {
    log_warning("the vocabulary has neither all bytes nor an unknown token; characters outside it are lost");
  }
}

void MarkedBpeTokenizer::encode_text(std::string_view text, WorkBudget* budget, std::vector<std::int32_t>& ids) const {
  std::string marked;
  append_marked(marked, text);
  const std::string_view all = marked;
  for (std::size_t begin = 0; begin < all.size();) {
    const bool is_line_end = all[begin] == '\n';
    const std::size_t next = is_line_end ? all.find_first_not_of('\n', begin) : all.find('\n', begin);
    const std::size_t end = std::min(next, all.size());
    const std::string_view stretch = all.substr(begin, end - begin);
    if (const std::int32_t id = is_line_end ? find_mergeable(stretch) : -1; id >= 0) {
      ids.push_back(id);
    } else {
      encode_stretch(stretch, budget, ids);
    }
    begin = end;
  }
}

void MarkedBpeTokenizer::encode_stretch(std::string_view text, WorkBudget* budget, std::vector<std::int32_t>& ids) const {
  std::vector<MergeSymbol> symbols;
  for (std::size_t position = 0; position < text.size();) {
    const std::string_view character = text.substr(position, utf8_unit(text, position).length);
    const std::int32_t id = find_mergeable(character);
    append_symbol(symbols, position, character.size(), id >= 0 ? id : merges_.other_symbol(character));
    position += character.size();
  }
  merge_symbols(symbols, budget,
                [this](const MergeSymbol& left, const MergeSymbol& right) { return merges_.join(left, right); });
  bool after_unknown = false;
  for (std::int32_t i = 0; i >= 0; i = symbols[static_cast<std::size_t>(i)].next) {
    const MergeSymbol& symbol = symbols[static_cast<std::size_t>(i)];
    const bool is_token = symbol.value >= 0 && symbol.value < size();
    if (is_token) {
      ids.push_back(symbol.value);
    }
    const bool is_known = is_token || bytes_.append(text.substr(symbol.begin, symbol.length), ids);
    if (!is_known && !after_unknown && unknown_ >= 0) {
      ids.push_back(unknown_);
    }
    after_unknown = !is_known;
  }
}

std::string MarkedBpeTokenizer::ordinary_bytes(std::int32_t id) const {
  const std::string_view text = vocabulary_.tokens[static_cast<std::size_t>(id)];
  return type(id) == TokenType::byte ? std::string(1, static_cast<char>(byte_of(text))) : unmarked(text);
}

}  // namespace rocmforge
