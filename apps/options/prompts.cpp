#include "prompts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdint>
#include <filesystem>
#include <utility>

#include "base/json.h"
#include "base/json_document.h"
#include "base/printable.h"
#include "chat/chat_format.h"
#include "read_text.h"
#include "service/image_files.h"
#include "service/images.h"
#include "service/service_error.h"
#include "service/sounds.h"
#include "usage_error.h"

namespace rocmforge::app {

const Tokenizer& require_tokenizer(const Engine& engine) {
  const auto tokenizer = engine.tokenizer();
  if (tokenizer == nullptr) {
    throw Error(engine.file().path().string() + ": the file has no tokenizer, so it can't read or write text");
  }
  return *tokenizer;
}

std::string chat_format_names() { return fmt::format("{}", fmt::join(builtin_chat_template_names(), ", ")); }

void TemplateFlags::add_to(Command& command) {
  const std::vector<std::string_view> names = builtin_chat_template_names();
  const std::string group = "Chat template";
  command.options.push_back({.names = "--chat-format",
                             .target = &format,
                             .meaning = "A built-in template instead of the model's own",
                             .group = group,
                             .choices = {names.begin(), names.end()}});
  command.options.push_back({.names = "--chat-template-file",
                             .target = &file,
                             .meaning = "Jinja template instead of the model's own",
                             .value = "FILE",
                             .group = group,
                             .excludes = {"--chat-format"}});
  command.options.push_back({.names = "--chat-template-kwargs",
                             .target = &arguments,
                             .meaning = "Variables for the template, as a JSON object",
                             .value = "JSON",
                             .group = group});
  command.options.push_back({.names = "--think",
                             .target = &think,
                             .meaning = "Whether the model reasons first, where its template leaves the choice",
                             .group = group,
                             .choices = {"on", "off"}});
}

Option raw_option(bool& target, Command& command) {
  for (const char* name : {"--chat-format", "--chat-template-file", "--chat-template-kwargs", "--think"}) {
    command.option(name).excludes.push_back("--raw");
  }
  return {"--raw", &target, "Continue the text, with the control tokens written in it; no chat template"};
}

std::string TemplateFlags::source() const {
  return !file.empty() ? read_text(file) : format.empty() ? "" : std::string(*builtin_chat_template(format));
}

nlohmann::ordered_json TemplateFlags::variables() const {
  auto variables = nlohmann::ordered_json::object();
  if (!arguments.empty()) {
    variables = read_json(arguments).value;
    if (!variables.is_object()) {
      throw UsageError("--chat-template-kwargs is not a JSON object, as in '{\"enable_thinking\": false}'");
    }
  }
  if (!think.empty()) {  // templates use either name
    variables["enable_thinking"] = think == "on";
    variables["thinking"] = think == "on";
  }
  return variables;
}

std::optional<ChatTemplates> choose_templates(const Engine& engine, const TemplateFlags& flags) {
  const Tokenizer& tokenizer = require_tokenizer(engine);
  const std::string source = flags.source();
  const std::string from = !flags.file.empty()     ? flags.file
                           : !flags.format.empty() ? flags.format
                                                   : engine.file().path().string();
  auto templates = with_context(from, [&] {
    return source.empty() ? ChatTemplates::of_model(tokenizer) : std::optional(ChatTemplates::of_source(source, tokenizer));
  });
  if (!flags.think.empty() && !templates.has_value()) {
    throw UsageError(fmt::format("--think: {} has no chat template", from));
  }
  if (!flags.think.empty() && !templates->choose({}).abilities().thinking_switch) {
    throw UsageError(fmt::format("--think: the chat template of {} has no such choice", from));
  }
  return templates;
}

namespace {

/// Returns the result of `body`. Turns a ServiceError into an Error: there is no client that it could be told.
template <class Body>
auto as_error(Body&& body) {
  try {
    return body();
  } catch (const ServiceError& error) {
    throw Error(error.message);
  }
}

Reading free_reading() { return Reading(UINT64_MAX, nullptr, "local"); }

}  // namespace

Turn local_turn(TurnRequest asked, ModelInstance& model) {
  return as_error([&] {
    Reading reading = free_reading();
    return make_turn(std::move(asked), model, reading);
  });
}

Turn tokens_turn(ModelInstance& model, const Engine& engine, const GenerationFlags& generation,
                 std::vector<std::int32_t> ids) {
  return as_error([&] {
    Reading reading = free_reading();
    Turn turn;
    turn.request = generation.request(engine);
    turn.format.splits_reasoning = false;
    turn.request.prompt = std::move(ids);
    turn.request.constraint = constrain(generation.grammar(), model.grammars(), reading);
    return turn;
  });
}

Message message_with_files(const PromptFiles& files, std::string text) {
  std::vector<Part> parts;
  const auto url = [](const std::string& file) { return url_of_file(std::filesystem::absolute(file).string()); };
  for (const std::string& file : files.images) {
    parts.push_back(ImagePart{.url = url(file), .field = printable(file, 200)});
  }
  for (const std::string& file : files.sounds) {
    parts.push_back(SoundPart{.url = url(file), .field = printable(file, 200)});
  }
  parts.push_back(TextPart{std::move(text)});
  return {.role = Role::user, .content = content_of(std::move(parts))};
}

void check_image(const std::string& file) {
  as_error([&] {
    Reading reading = free_reading();
    const Conversation conversation{.messages = {message_with_files({.images = {file}}, "")}};
    ImageAllowance allowance;
    return read_images(conversation.images(), {.folder = "/"}, allowance, reading);
  });
}

void check_sound(const std::string& file) {
  as_error([&] {
    Reading reading = free_reading();
    const Conversation conversation{.messages = {message_with_files({.sounds = {file}}, "")}};
    ImageAllowance allowance;
    return read_sounds(conversation.sounds(), {.folder = "/"}, allowance, reading);
  });
}

Turn prompt_turn(ModelInstance& model, const Engine& engine, const GenerationFlags& generation, const TemplateFlags& flags,
                 bool raw, const std::string& text, OfferedTools offered, const PromptFiles& files) {
  const auto templates = raw ? std::nullopt : choose_templates(engine, flags);
  const std::string& system = generation.system();
  if (!templates.has_value()) {
    if (!system.empty()) {
      throw UsageError("--system needs a chat template, and this model has none; --chat-format names one of " +
                       chat_format_names());
    }
    if (!files.images.empty() || !files.sounds.empty()) {
      throw UsageError(std::string(files.images.empty() ? "--audio" : "--image") +
                       " needs a chat template, and this model has none; --chat-format names one of " + chat_format_names());
    }
    if (offered.tools) {
      throw UsageError("--tools-file needs a chat template, and this model has none; --chat-format names one of " +
                       chat_format_names());
    }
    return tokens_turn(model, engine, generation, require_tokenizer(engine).encode(text, {.parse_special = true}));
  }
  TurnRequest asked;
  asked.request = generation.request(engine);
  asked.grammar = generation.grammar();
  asked.templates = &*templates;
  if (!system.empty()) {
    asked.conversation.messages.push_back(text_message(Role::system, system));
  }
  asked.conversation.messages.push_back(message_with_files(files, text));
  asked.conversation.arguments = flags.variables();
  asked.conversation.tools = std::move(offered.tools);
  asked.conversation.selection = std::move(offered.selection);
  return local_turn(std::move(asked), model);
}

}  // namespace rocmforge::app
