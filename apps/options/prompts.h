#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "chat/chat_template.h"
#include "chat/tool_calls.h"
#include "command.h"
#include "engine/engine.h"

namespace rocmforge::app {

/// The engine's tokenizer. Throws Error for a file without one.
const Tokenizer& require_tokenizer(const Engine& engine);

/// Which chat template to use instead of the model's own, and what to tell it.
struct TemplateFlags {
  std::string format;     ///< --chat-format: the name of a built-in one
  std::string file;       ///< --chat-template-file
  std::string arguments;  ///< --chat-template-kwargs
  std::string think;      ///< --think: "on", "off", or "" for the model's own way

  void add_to(Command& command);
  /// The text of the template that is named; "" for the model's own. Throws UsageError for an unknown name.
  [[nodiscard]] std::string source() const;
  /// What the template gets beside the conversation: an object. Throws UsageError for what is none.
  [[nodiscard]] nlohmann::ordered_json variables() const;
};

/// --raw, beside which the options of a template can't stand; those are in `command`.
Option raw_option(bool& target, Command& command);

/// The templates that the flags name, or the model's own; empty when the model has none. Throws UsageError for an unknown
/// name, and for --think where the template has no such choice.
std::optional<ChatTemplates> choose_templates(const Engine& engine, const TemplateFlags& flags);
/// "chatml, llama2, ..."
std::string chat_format_names();

nlohmann::ordered_json chat_message(std::string_view role, std::string_view content);
/// A conversation up to where the answer begins.
struct EncodedChat {
  std::vector<std::int32_t> ids;
  AnswerFormat format;  ///< of the answer, which may have no calls
};
EncodedChat encode_chat(const Engine& engine, const ChatTemplates& templates, const nlohmann::ordered_json& messages,
                        const nlohmann::ordered_json& variables);

/// A prompt as `run` takes it: a user's message behind the system message when the model has a chat template, plain text
/// otherwise, and where `raw` says so. Throws UsageError for a system message where there is no template.
EncodedChat encode_prompt(const Engine& engine, const TemplateFlags& flags, const std::string& system, bool raw,
                          const std::string& text);

}  // namespace rocmforge::app
