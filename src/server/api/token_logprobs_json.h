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
