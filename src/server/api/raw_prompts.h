#pragma once

#include <string>
#include <vector>

#include "server/api/fields.h"
#include "server/api/prompts.h"

namespace rocmforge {

// Texts that a model continues, and texts with a gap.

/// Throws ApiError(501), naming the field, where the model's vocabulary has no infill tokens
/// (Vocabulary::fim_pre, fim_suf, fim_mid).
void require_infill(const ServedModel& model, const std::string& field = {});

/// The prompt of an infill: both texts with their infill tokens, and BOS where the model adds it
/// and `add_special` is true. Special tokens written in the texts stay text.
Ids infill_prompt(const Tokenizer& tokenizer, const Ids& prefix, const Ids& suffix, bool add_special);

/// Whether the model's vocabulary has infill tokens.
[[nodiscard]] bool fills_gaps(const Vocabulary& vocabulary);

/// The field `prompt`: texts that are continued, or with the field `suffix` the texts before a gap.
std::vector<Ids> read_raw_prompts(Fields& fields, const ServedModel& model, Reading& reading);

/// The same for one text that has been read, and the text after its gap, or "".
Ids encode_raw_prompt(Fields& fields, const std::string& prompt, const std::string& suffix, const ServedModel& model,
                      Reading& reading);

}  // namespace rocmforge
