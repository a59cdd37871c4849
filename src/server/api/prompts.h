#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "server/api/fields.h"
#include "service/encoding.h"
#include "service/model.h"
#include "service/reading.h"

namespace rocmforge {

constexpr std::size_t most_prompts = 2048;

/// How texts that a model continues become ids: with BOS where the model adds it, and with the control tokens that are
/// written in them, unless `add_special_tokens` or `parse_special` is false.
Tokenizer::EncodeOptions read_raw_rules(Fields& fields);

/// Reads field `name`: a string, an array of token ids (and strings between them), or an array of any of these. At least one
/// prompt; an empty text is an empty prompt.
std::vector<Ids> read_prompts(Fields& fields, std::string_view name, const ServedModel& model, Reading& reading,
                              Tokenizer::EncodeOptions rules);

/// The values of the prompts in field `name`: itself, or its entries. With `objects` a prompt may be an object. They are as
/// long as the request's document.
std::vector<const Json*> prompt_values(Fields& fields, std::string_view name, bool objects);

/// One prompt: a text, ids, or an array that mixes texts and ids.
Ids read_prompt(Fields& fields, std::string_view name, const Json& value, const ServedModel& model, Reading& reading,
                Tokenizer::EncodeOptions rules);

}  // namespace rocmforge
