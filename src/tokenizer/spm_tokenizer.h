#pragma once

#include "tokenizer/byte_tokens.h"
#include "tokenizer/tokenizer.h"

namespace rocmforge {

/// SentencePiece-style BPE ("llama"): spaces as U+2581, pairs merged by the highest score, leftover characters as bytes.
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
  std::vector<std::uint32_t> priorities_;  // by id, 0 for the highest score
  std::int32_t unknown_ = -1;              // -1 as well for a file's unknown token that is a control token
  std::size_t longest_ = 0;                // bytes of the longest token that merging can give
  bool words_are_apart_ = true;            // no such token has a space after anything but a space
};

}  // namespace rocmforge
