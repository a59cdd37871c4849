#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/byte_tokens.h"
#include "tokenizer/charsmap.h"
#include "tokenizer/prefix_trie.h"
#include "tokenizer/tokenizer.h"

namespace rocmforge {

/// SentencePiece's unigram model ("t5"; Kudo 2018): of all ways to write the normalised text as tokens, the one with the
/// highest sum of scores. Spaces are written as U+2581.
class UnigramTokenizer final : public Tokenizer {
 public:
  /// Throws Error without scores or an unknown token, for a token of more than 1,024 bytes, and for a damaged charsmap.
  explicit UnigramTokenizer(Vocabulary vocabulary);

 protected:
  void encode_text(std::string_view text, WorkBudget* budget, std::vector<std::int32_t>& ids) const override;
  [[nodiscard]] std::string ordinary_bytes(std::int32_t id) const override;

 private:
  /// The best way to the end of a part of the text.
  struct Step {
    float score = 0.0f;        ///< of this precision, so that ties are decided as SentencePiece decides them
    std::int32_t token = -1;   ///< the last one; -1: nothing ends here
    std::uint32_t length = 0;  ///< its bytes
  };

  void read_tokens();
  [[nodiscard]] std::string normalised(std::string_view text) const;
  [[nodiscard]] std::vector<Step> best_steps(std::string_view text, WorkBudget* budget) const;

  Charsmap charsmap_;
  ByteTokens bytes_;
  PrefixTrie tokens_;
  std::vector<float> scores_;  ///< by id
  float unknown_score_ = 0.0f;
  bool merges_spaces_ = true;
};

}  // namespace rocmforge
