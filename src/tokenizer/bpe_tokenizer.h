#pragma once

#include <array>

#include "tokenizer/pair_table.h"
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
  void read_merges();
  void choose_special_tokens();
  void find_byte_symbols();
  std::int32_t symbol_of(std::string_view text);
  void encode_piece(std::string_view piece, WorkBudget* budget, std::vector<std::int32_t>& ids) const;
  void append_bytes(std::string_view bytes, std::vector<std::int32_t>& ids) const;

  PreTokenizerRules rules_;
  PreTokenizer pre_tokenizer_;
  // A symbol's number is its token's id, or size() and up for texts of merges that are no token.
  std::unordered_map<std::string, std::int32_t> other_symbols_;
  std::array<std::int32_t, 256> byte_symbols_{};  // -1 where neither a token nor a merge knows the byte
  PairTable merges_;
};

}  // namespace rocmforge
