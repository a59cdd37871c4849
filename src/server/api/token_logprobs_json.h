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

/// The log probabilities of an answer's tokens on their way to the client: they go out with the text that their tokens have
/// become, so that the tokens' texts together are the text.
class PendingLogprobs {
 public:
  /// A token that was drawn, with the bytes it stands for.
  void add(TokenLogprobs logprobs, std::size_t bytes);
  /// Those whose text is out, once `text_bytes` of the answer are; at the end also one that began before the cut.
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
/// in characters, and is moved on. A token without a logprob (the first of a prompt) has NaN.
Json completion_logprobs(const std::vector<TokenLogprobs>& tokens, const Tokenizer& tokenizer, std::size_t& text_offset);

/// The same in pieces, of tokens that they hold; `tokenizer` too.
TextPieces chat_logprobs_in_pieces(std::vector<TokenLogprobs> tokens, std::shared_ptr<const Tokenizer> tokenizer);
/// Only the array inside.
TextPieces token_list_in_pieces(std::vector<TokenLogprobs> tokens, std::shared_ptr<const Tokenizer> tokenizer);
TextPieces completion_logprobs_in_pieces(std::vector<TokenLogprobs> tokens, std::shared_ptr<const Tokenizer> tokenizer);

/// A token's text for people: U+FFFD for bytes that are no text of their own.
std::string token_text(const Tokenizer& tokenizer, std::int32_t token, bool special);

}  // namespace rocmforge
