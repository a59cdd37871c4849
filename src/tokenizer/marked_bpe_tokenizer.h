#pragma once

#include "tokenizer/byte_tokens.h"
#include "tokenizer/merge_table.h"
#include "tokenizer/tokenizer.h"

namespace rocmforge {

/// BPE over characters ("gemma4"): spaces as U+2581, pairs merged by rank, leftover characters as bytes. Text is cut only
/// where runs of line ends begin and end; such a run that is a token is taken whole.
class MarkedBpeTokenizer final : public Tokenizer {
 public:
  explicit MarkedBpeTokenizer(Vocabulary vocabulary);

 protected:
  void encode_text(std::string_view text, WorkBudget* budget, std::vector<std::int32_t>& ids) const override;
  [[nodiscard]] std::string ordinary_bytes(std::int32_t id) const override;

 private:
  void encode_stretch(std::string_view text, WorkBudget* budget, std::vector<std::int32_t>& ids) const;

  MergeTable merges_;
  ByteTokens bytes_;
  std::int32_t unknown_ = -1;  // -1 as well for a file's unknown token that is a control token
};

}  // namespace rocmforge
