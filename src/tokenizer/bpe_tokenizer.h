#pragma once

#include <array>

#include "tokenizer/merge_table.h"
#include "tokenizer/pre_tokenizer.h"
#include "tokenizer/tokenizer.h"

namespace rocmforge {

/// Byte-level BPE ("gpt2"). The pre-tokenizer cuts the text into pieces, bytes are written as printable characters, and
/// pairs are merged by rank.
class BpeTokenizer final : public Tokenizer {
 public:
  explicit BpeTokenizer(Vocabulary vocabulary);

 protected:
  void encode_text(std::string_view text, WorkBudget* budget, std::vector<std::int32_t>& ids) const override;
  [[nodiscard]] std::string ordinary_bytes(std::int32_t id) const override;

 private:
  void choose_special_tokens();
  void find_byte_symbols();
  void encode_piece(std::string_view piece, WorkBudget* budget, std::vector<std::int32_t>& ids) const;
  void append_bytes(std::string_view bytes, std::vector<std::int32_t>& ids) const;

  PreTokenizerRules rules_;
  PreTokenizer pre_tokenizer_;
  MergeTable merges_;
  std::array<std::int32_t, 256> byte_symbols_{};  // -1 when the byte is in no token and no merge
};

}  // namespace rocmforge
