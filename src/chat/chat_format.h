#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rocmforge {

/// A built-in chat template, for files with no template or a wrong one: chatml, llama2, llama3, mistral, phi3, gemma,
/// zephyr. Each writes the same as the template of the model family for plain conversations, except for BOS, which
/// encode_chat adds, and for texts that a template adds by itself (default system prompts, dates). If the templates of a
/// family differ:
/// - mistral has the form of the v3 and later templates, "[INST]text[/INST]", with the system text before the last
///   question; a SentencePiece tokenizer itself adds the spaces of older models;
/// - gemma has no system role: as in Gemma 3, the system text goes before the first question.
/// Empty for an unknown name.
std::optional<std::string_view> builtin_chat_template(std::string_view name);

std::vector<std::string_view> builtin_chat_template_names();

}  // namespace rocmforge
