#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rocmforge {

/// A chat template that is built in, for files that bring none or a wrong one: chatml, llama2, llama3, mistral, phi3, gemma,
/// zephyr. Each gives what the model family's own template gives for plain conversations, less the BOS, which encode_chat
/// adds, and without texts that a template makes up by itself (default system prompts, dates). Where a family's templates
/// differ:
/// - mistral is the form of the v3 and later templates, "[INST]text[/INST]", with the system text before the last question;
///   a SentencePiece tokenizer puts the spaces of older models in by itself;
/// - gemma has no system role: as in Gemma 3, the system text goes before the first question.
/// Empty for an unknown name.
std::optional<std::string_view> builtin_chat_template(std::string_view name);

std::vector<std::string_view> builtin_chat_template_names();

}  // namespace rocmforge
