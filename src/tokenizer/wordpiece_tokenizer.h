#pragma once

#include <string_view>

#include "tokenizer/bert_characters.h"
#include "tokenizer/prefix_trie.h"
#include "tokenizer/tokenizer.h"

namespace rocmforge {

/// BERT's WordPiece ("bert"). In the file, pieces that begin a word have a U+2581 before them, others nothing. A word is cut
/// into the longest pieces from its start; one that can't be cut, or has over 100 characters, is the unknown token. Texts
/// stand between the tokens "[CLS]" (Vocabulary::bos) and "[SEP]" (Vocabulary::eos).
class WordPieceTokenizer final : public Tokenizer {
 public:
  /// Throws Error for a vocabulary without one of the three.
  explicit WordPieceTokenizer(Vocabulary vocabulary);

 protected:
  void encode_text(std::string_view text, WorkBudget* budget, std::vector<std::int32_t>& ids) const override;
  [[nodiscard]] std::string ordinary_bytes(std::int32_t id) const override;

 private:
  void encode_word(std::u32string_view word, std::vector<std::int32_t>& ids) const;

  BertNormalizer normalizer_;
  PrefixTrie pieces_;
};

}  // namespace rocmforge
