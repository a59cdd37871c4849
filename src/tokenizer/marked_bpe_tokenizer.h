#pragma once

#include "tokenizer/byte_tokens.h"
#include "tokenizer/merge_table.h"
#include "tokenizer/tokenizer.h"

namespace rocmforge {

/// BPE over characters ("gemma4"). Spaces are written as U+2581, pairs are merged by rank, and characters that are not
/// tokens become bytes. Text is cut only at the start and the end of runs of line ends. If such a run is a token, it is not
/// merged from parts.
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
  std::int32_t unknown_ = -1;  // also -1 when the file's unknown token is a control token
};

}  // namespace rocmforge
