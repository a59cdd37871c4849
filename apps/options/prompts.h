#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "chat/chat_template.h"
#include "command.h"
#include "engine/engine.h"
#include "flags.h"
#include "service/turn.h"
#include "tool_flags.h"

namespace rocmforge::app {

/// The engine's tokenizer. Throws Error for a file without one.
const Tokenizer& require_tokenizer(const Engine& engine);

/// The chat template that replaces the model's own, and the variables for it.
struct TemplateFlags {
  std::string format;     ///< --chat-format: the name of a built-in one
  std::string file;       ///< --chat-template-file
  std::string arguments;  ///< --chat-template-kwargs
  std::string think;      ///< --think: "on", "off", or "" for the template's default

  void add_to(Command& command);
  /// The text of the chosen template; "" for the model's own. Throws UsageError for an unknown name.
  [[nodiscard]] std::string source() const;
  /// The variables of the template: a JSON object. Throws UsageError if the option is not one.
  [[nodiscard]] nlohmann::ordered_json variables() const;
};

/// --raw. It excludes the options of templates, which `command` already has.
Option raw_option(bool& target, Command& command);

/// The templates that the flags name, or the model's own; empty when the model has none. Throws UsageError for an unknown
/// name, and for --think if the template has no such choice.
std::optional<ChatTemplates> choose_templates(const Engine& engine, const TemplateFlags& flags);
/// "chatml, llama2, ..."
std::string chat_format_names();

/// Makes a turn without limits of work and memory, for the program's own user. Throws Error.
Turn local_turn(TurnRequest asked, ModelInstance& model);

/// Throws Error where a file can't be read as an image.
void check_image(const std::string& file);
/// Throws Error where a file can't be read as a recording.
void check_sound(const std::string& file);
/// Files that a prompt is about.
struct PromptFiles {
  std::vector<std::string> images{};
  std::vector<std::string> sounds{};  ///< recordings
};
/// A user's message with the files before the text.
Message message_with_files(const PromptFiles& files, std::string text);

/// The turn of `run`. If the model has a chat template, `text` is a user's message after the system message; otherwise, or
/// with `raw`, it is plain text that is continued. Throws UsageError for a system message or tools without a template.
Turn prompt_turn(ModelInstance& model, const Engine& engine, const GenerationFlags& generation, const TemplateFlags& flags,
                 bool raw, const std::string& text, OfferedTools offered = {}, const PromptFiles& files = {});

/// The turn of a plain text that is there as token ids.
Turn tokens_turn(ModelInstance& model, const Engine& engine, const GenerationFlags& generation,
                 std::vector<std::int32_t> ids);

}  // namespace rocmforge::app
