#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "server/api/fields.h"
#include "server/api/served_model.h"
#include "server/exchange.h"

namespace rocmforge {

using Ids = std::vector<std::int32_t>;

constexpr std::size_t most_prompts = 2048;

/// Reads field `name`: a string, an array of token ids (and strings between them), or an array of any of these. Texts become
/// ids with BOS where the model adds it and `add_special_tokens` is not false; control tokens written in them stay text. At
/// least one prompt; an empty text is an empty prompt. Without `add_bos` no text has BOS put before it.
std::vector<Ids> read_prompts(Fields& fields, std::string_view name, const ServedModel& model, Exchange& exchange,
                              bool add_bos = true);

/// Whether a value of that kind is one prompt: no array, or one of ids, or of ids and texts.
bool is_one_prompt(const Json& value);

/// One prompt: a text, ids, or an array that mixes texts and ids.
Ids read_prompt(Fields& fields, std::string_view name, const Json& value, const ServedModel& model, Exchange& exchange,
                bool add_special = true);

/// The ids of texts; counts their work and memory. Throws ApiError and Error.
Ids encode_text(Exchange& exchange, const Tokenizer& tokenizer, std::string_view text,
                const Tokenizer::EncodeOptions& options);
Ids encode_prompt(Exchange& exchange, const Tokenizer& tokenizer, std::span<const ChatSegment> segments);

}  // namespace rocmforge
