#pragma once

#include <memory>
#include <string>

#include "server/api/generation.h"
#include "server/api/prompts.h"

namespace rocmforge {

/// Throws ApiError(501), with the field that asks for it, where the model's vocabulary has no marks for a gap in a text
/// (Vocabulary::fim_pre, fim_suf, fim_mid).
void require_infill(const ServedModel& model, const std::string& field = {});

/// The prompt whose answer fills the gap between two texts: what both are marked with, BOS before it where the model adds it
/// and `add_special` is true. `prefix` and `suffix` have no special tokens of their own.
Ids infill_prompt(const Tokenizer& tokenizer, const Ids& prefix, const Ids& suffix, bool add_special);

/// POST /infill: llama-server's completion between `input_prefix` and `input_suffix`. Throws ApiError.
void serve_infill(const std::shared_ptr<Exchange>& exchange, const Backend& backend);

}  // namespace rocmforge
