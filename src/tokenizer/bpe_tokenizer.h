#pragma once

#include <array>

#include "tokenizer/merge_table.h"
#include "tokenizer/pre_tokenizer.h"
#include "tokenizer/tokenizer.h"

namespace rocmforge {

/// Byte-level BPE ("gpt2"): pieces of the pre-tokenizer, bytes written as printable characters, pairs merged by rank.
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
  std::array<std::int32_t, 256> byte_symbols_{};  // -1 where neither a token nor a merge knows the byte
};

}  // namespace rocmforge
