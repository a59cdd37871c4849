#include "server/api/ollama_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>

#include "chat/message_json.h"
#include "server/api/content_parts.h"

namespace rocmforge {
namespace ollama {
namespace {

/// What the model sees in place of the images beside a text.
std::string with_images(Fields& fields, std::string text) {
  const Json* images = fields.array("images");
  for (std::size_t i = 0; images != nullptr && i < images->size(); ++i) {
    fields.note(fmt::format("images[{}]", i));
    text += (text.empty() ? "" : "\n") + placeholder("image");
  }
  return text;
}

/// Options that are fields with the same name.
constexpr std::array<std::string_view, 11> known_options = {"temperature",
                                                            "top_k",
                                                            "top_p",
                                                            "min_p",
                                                            "typical_p",
                                                            "seed",
                                                            "stop",
                                                            "repeat_penalty",
                                                            "repeat_last_n",
                                                            "presence_penalty",
                                                            "frequency_penalty"};

/// Other options become unknown fields.
void read_options(Fields& fields, Json& chat) {
  const Json* options = fields.object("options");
  if (options == nullptr) {
    return;
  }
  for (const auto& [name, value] : options->items()) {
    const bool is_known = std::ranges::find(known_options, name) != known_options.end();
    // Append without searching: searching the members for each name would take quadratic time.
    if (name == "num_predict") {  // 0, -1 and -2 are no limit there
      const bool is_limit = !value.is_number_integer() || value > 0;
      chat.get_ref<Json::object_t&>().push_back({"max_tokens", is_limit ? value : Json(-1)});
      continue;
    }
    chat.get_ref<Json::object_t&>().push_back({is_known ? name : "options." + name, value});
  }
}

void read_format(Fields& fields, Json& chat) {
  const Json* format = fields.find("format");
  if (format == nullptr || *format == "") {
    return;
  }
  if (*format == "json") {
    chat["response_format"] = {{"type", "json_object"}};
  } else if (format->is_object()) {
    chat["response_format"] = schema_format(*format);
  } else {
    fields.fail("format", "must be \"json\" or a schema");
  }
}

void read_thinking(Fields& fields, Json& chat) {
  const Json* think = fields.find("think");
  if (think == nullptr) {
    return;
  }
  if (!think->is_boolean() && !think->is_string()) {
    fields.fail("think", "must be true, false or an effort");
  }
  chat["thinking"] = {{"type", *think != false ? "enabled" : "disabled"}};
  if (think->is_string()) {
    chat["reasoning_effort"] = *think;
  }
}

Json begin_body(Fields& fields, std::initializer_list<std::string_view> replaced) {
  Json chat = fields.json();
  for (const std::string_view name : {"options", "format", "think", "keep_alive", "images"}) {
    chat.erase(std::string(name));
  }
  for (const std::string_view name : replaced) {
    chat.erase(std::string(name));
  }
  if (!fields.has("stream")) {
    chat["stream"] = true;
  }
  read_format(fields, chat);
  read_thinking(fields, chat);
  read_options(fields, chat);
  return chat;
}

/// Calls have no ids in this API: they are numbered, and results belong to the calls in their order.
class Conversation {
 public:
  void add(Fields& message) {
    const std::string role = message.needed_choice("role", {"system", "user", "assistant", "tool"});
    Json json = plain_message(role, with_images(message, message.text("content").value_or("")));
    if (const auto thinking = message.text("thinking"); thinking && !thinking->empty()) {
      json["reasoning_content"] = *thinking;
    }
    if (role == "tool") {
      json["tool_call_id"] = id_of(std::min(answered_++, std::max(calls_ - 1, 0)));
      if (const auto name = message.text("tool_name")) {
        json["name"] = *name;
      }
    }
    const Json* calls = message.array("tool_calls");
    for (std::size_t i = 0; calls != nullptr && i < calls->size(); ++i) {
      add_call(message, (*calls)[i], i, json);
    }
    messages_.push_back(std::move(json));
  }

  Json take() { return std::move(messages_); }

 private:
  static std::string id_of(int number) { return fmt::format("call{:05}", number); }

  void add_call(Fields& message, const Json& given, std::size_t index, Json& json) {
    Fields call(given, fmt::format("{}[{}].", message.full_name("tool_calls"), index));
    Fields inner(call.needed_object("function"), call.full_name("function") + ".");
    const Json* arguments = inner.object("arguments");
    const std::string name = inner.needed_text("name");
    json["tool_calls"].push_back(call_message(id_of(calls_++), name, arguments == nullptr ? "{}" : to_text(*arguments)));
  }

  Json messages_ = Json::array();
  int calls_ = 0;
  int answered_ = 0;
};

}  // namespace
}  // namespace ollama

Json chat_body_of_ollama(Fields& fields) {
  Json chat = ollama::begin_body(fields, {});
  const Json* given = fields.array("messages");
  ollama::Conversation conversation;
  for (std::size_t i = 0; given != nullptr && i < given->size(); ++i) {
    Fields message = fields.inner((*given)[i], fmt::format("messages[{}].", i));
    conversation.add(message);
  }
  chat["messages"] = conversation.take();
  return chat;
}

Json generate_body_of_ollama(Fields& fields) {
  Json chat = ollama::begin_body(fields, {"prompt", "system", "raw", "template", "suffix"});
  if (const auto text = fields.text("template"); text && !text->empty()) {
    fields.fail("template", "is not served; with raw the prompt is taken as it is");
  }
  std::string prompt = ollama::with_images(fields, fields.text("prompt").value_or(""));
  const std::string suffix = fields.text("suffix").value_or("");
  if (fields.boolean("raw").value_or(false) || !suffix.empty()) {
    chat["prompt"] = prompt;
    chat["suffix"] = suffix;
    if (!fields.text("system").value_or("").empty()) {
      fields.note("system");  // the text around a gap has no place for it
    }
    return chat;
  }
  Json messages = Json::array();
  if (const auto system = fields.text("system"); system && !system->empty()) {
    messages.push_back({{"role", "system"}, {"content", *system}});
  }
  if (!prompt.empty()) {
    messages.push_back(plain_message("user", std::move(prompt)));
  }
  chat["messages"] = std::move(messages);
  return chat;
}

}  // namespace rocmforge
