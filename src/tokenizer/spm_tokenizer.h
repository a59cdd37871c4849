#pragma once

#include "tokenizer/byte_tokens.h"
#include "tokenizer/tokenizer.h"

namespace rocmforge {

/// SentencePiece-style BPE ("llama"). Spaces are written as U+2581, the pair whose token has the highest score is merged
/// first, and characters that are not tokens become bytes.
class SpmTokenizer final : public Tokenizer {
 public:
  explicit SpmTokenizer(Vocabulary vocabulary);

 protected:
  void encode_text(std::string_view text, WorkBudget* budget, std::vector<std::int32_t>& ids) const override;
  [[nodiscard]] std::string ordinary_bytes(std::int32_t id) const override;

 private:
  void read_tokens();
  void encode_stretch(std::string_view text, WorkBudget* budget, std::vector<std::int32_t>& ids) const;

  ByteTokens bytes_;
  std::vector<std::uint32_t> priorities_;  // by id; the highest score has the lowest number
  std::int32_t unknown_ = -1;              // also -1 when the file's unknown token is a control token
  std::size_t longest_ = 0;                // bytes of the longest token that merging can make
  bool words_are_apart_ = true;            // no such token has a space after a character other than a space
};

}  // namespace rocmforge
