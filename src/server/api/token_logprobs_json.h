#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "server/api/json.h"
#include "server/api/json_pieces.h"

namespace rocmforge {

/// The log probabilities of an answer's tokens. They are sent with the text of their tokens, so
/// that the texts of the sent tokens together are the sent text.
class PendingLogprobs {
 public:
  /// Adds a drawn token and its bytes.
  void add(TokenLogprobs logprobs, std::size_t bytes);
  /// Returns those whose text is within the first `text_bytes` of the answer; at the end also one that began before the cut.
  std::vector<TokenLogprobs> take(std::size_t text_bytes, bool last);

 private:
  struct Entry {
    TokenLogprobs logprobs;
    std::size_t begin = 0, end = 0;
  };
  std::vector<Entry> entries_;
  std::size_t end_ = 0;
};

/// {"content": [{"token", "logprob", "bytes", "top_logprobs": [...]}], "refusal": null}
Json chat_logprobs(const std::vector<TokenLogprobs>& tokens, const Tokenizer& tokenizer);

/// The old form: {"tokens", "token_logprobs", "top_logprobs", "text_offset"}. `text_offset` is where the first token begins,
/// in characters; it is advanced. A token without a logprob (the first of a prompt) has NaN.
Json completion_logprobs(const std::vector<TokenLogprobs>& tokens, const Tokenizer& tokenizer, std::size_t& text_offset);

/// The same in pieces. They own the tokens and share `tokenizer`.
TextPieces chat_logprobs_in_pieces(std::vector<TokenLogprobs> tokens, std::shared_ptr<const Tokenizer> tokenizer);
/// Only the array inside.
TextPieces token_list_in_pieces(std::vector<TokenLogprobs> tokens, std::shared_ptr<const Tokenizer> tokenizer);
TextPieces completion_logprobs_in_pieces(std::vector<TokenLogprobs> tokens, std::shared_ptr<const Tokenizer> tokenizer);

/// A token's text for display: U+FFFD for bytes that are not a whole character.
std::string token_text(const Tokenizer& tokenizer, std::int32_t token, bool special);

}  // namespace rocmforge
