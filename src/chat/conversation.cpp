#include "chat/conversation.h"

#include <algorithm>
#include <array>

#include "chat/message_json.h"

namespace rocmforge {
namespace {

using nlohmann::ordered_json;

constexpr std::array<std::string_view, 5> role_names = {"system", "developer", "user", "assistant", "tool"};

ordered_json json_of(const Part& part) {
  if (const auto* text = std::get_if<TextPart>(&part)) {
    return text_part(text->text);
  }
  return std::holds_alternative<ImagePart>(part) ? image_part() : sound_part();
}

Part part_of_json(const ordered_json& json) {
  if (is_image_part(json)) {
    return ImagePart{.url = string_of(json, "url"), .field = string_of(json, "field")};
  }
  if (is_sound_part(json)) {
    return SoundPart{.url = string_of(json, "url"), .field = string_of(json, "field")};
  }
  return TextPart{string_of(json, "text")};
}

ordered_json json_of(const MessageCall& call) {
  ordered_json json = ordered_json::object();
  if (!call.id.empty()) {
    json["id"] = call.id;
  }
  json["type"] = "function";
  json["function"]["name"] = call.name;
  if (!call.arguments.is_null()) {
    json["function"]["arguments"] = call.arguments;
  }
  json.update(call.others.is_null() ? ordered_json::object() : call.others);
  return json;
}

MessageCall call_of_json(const ordered_json& json) {
  const ordered_json& function = json.at("function");
  const auto arguments = function.find("arguments");
  return {.id = string_of(json, "id"),
          .name = string_of(function, "name"),
          .arguments = arguments == function.end() ? ordered_json() : *arguments};
}

template <class Kind>
std::vector<const Kind*> parts_of(const Content& content) {
  std::vector<const Kind*> found;
  if (const auto* parts = std::get_if<std::vector<Part>>(&content)) {
    for (const Part& part : *parts) {
      if (const auto* held = std::get_if<Kind>(&part)) {
        found.push_back(held);
      }
    }
  }
  return found;
}

template <class Kind>
std::vector<const Kind*> parts_of(const std::vector<Message>& messages) {
  std::vector<const Kind*> found;
  for (const Message& message : messages) {
    const std::vector<const Kind*> held = parts_of<Kind>(message.content);
    found.insert(found.end(), held.begin(), held.end());
  }
  return found;
}

/// By the names that templates use.
void switch_thinking(ordered_json& arguments, bool on) {
  for (const char* name : {"enable_thinking", "thinking"}) {
    if (!arguments.contains(name)) {
      arguments[name] = on;
    }
  }
}

}  // namespace

Content content_of(std::vector<Part> parts) {
  if (parts.empty()) {
    return std::string();
  }
  if (auto* only = std::get_if<TextPart>(&parts.front()); only != nullptr && parts.size() == 1) {
    return std::move(only->text);
  }
  return parts;
}

std::string text_of(const Content& content) {
  if (const auto* text = std::get_if<std::string>(&content)) {
    return *text;
  }
  std::string text;
  if (const auto* parts = std::get_if<std::vector<Part>>(&content)) {
    for (const Part& part : *parts) {
      const auto* held = std::get_if<TextPart>(&part);
      text += held == nullptr ? "" : held->text;
    }
  }
  return text;
}

std::vector<const ImagePart*> images_of(const Content& content) { return parts_of<ImagePart>(content); }

std::vector<const SoundPart*> sounds_of(const Content& content) { return parts_of<SoundPart>(content); }

std::string_view name(Role role) { return role_names[static_cast<std::size_t>(role)]; }

std::optional<Role> role_of(std::string_view name) {
  const auto found = std::ranges::find(role_names, name);
  return found == role_names.end() ? std::nullopt : std::optional(static_cast<Role>(found - role_names.begin()));
}

ordered_json json_of(const Message& message) {
  ordered_json json = {{"role", name(message.role)}};
  if (!message.call_id.empty()) {
    json["tool_call_id"] = message.call_id;
  }
  if (const auto* text = std::get_if<std::string>(&message.content)) {
    json["content"] = *text;
  } else if (const auto* parts = std::get_if<std::vector<Part>>(&message.content)) {
    json["content"] = ordered_json::array();
    for (const Part& part : *parts) {
      json["content"].push_back(json_of(part));
    }
  }
  if (!message.reasoning.empty()) {
    json["reasoning_content"] = message.reasoning;
  }
  for (const MessageCall& call : message.calls) {
    json["tool_calls"].push_back(json_of(call));
  }
  if (!message.name.empty()) {
    json["name"] = message.name;
  }
  // Appended without a search for each, which would take quadratic time: they are no typed members.
  auto& members = json.get_ref<ordered_json::object_t&>();
  for (const auto& [name, value] : message.others.items()) {
    members.push_back({name, value});
  }
  return json;
}

ordered_json stored_json_of(const Message& message) {
  ordered_json json = json_of(message);
  const auto* parts = std::get_if<std::vector<Part>>(&message.content);
  for (std::size_t i = 0; parts != nullptr && i < parts->size(); ++i) {
    const auto store = [&](const auto* held) {
      if (held != nullptr) {
        json["content"][i]["url"] = held->url;
        json["content"][i]["field"] = held->field;
      }
    };
    store(std::get_if<ImagePart>(&(*parts)[i]));
    store(std::get_if<SoundPart>(&(*parts)[i]));
  }
  return json;
}

Message message_of_json(const ordered_json& json) {
  Message message{.role = role_of(string_of(json, "role")).value_or(Role::user),
                  .reasoning = string_of(json, "reasoning_content"),
                  .call_id = string_of(json, "tool_call_id"),
                  .name = string_of(json, "name")};
  const auto content = json.find("content");
  if (content != json.end() && content->is_string()) {
    message.content = content->get<std::string>();
  } else if (content != json.end() && content->is_array()) {
    std::vector<Part> parts;
    for (const ordered_json& part : *content) {
      parts.push_back(part_of_json(part));
    }
    message.content = std::move(parts);
  }
  if (const auto calls = json.find("tool_calls"); calls != json.end()) {
    for (const ordered_json& call : *calls) {
      message.calls.push_back(call_of_json(call));
    }
  }
  return message;
}

std::vector<const ImagePart*> Conversation::images() const { return parts_of<ImagePart>(messages); }

std::vector<const SoundPart*> Conversation::sounds() const { return parts_of<SoundPart>(messages); }

bool Conversation::ends_with_answer() const {
  return !messages.empty() && messages.back().role == Role::assistant && messages.back().calls.empty();
}

std::string Conversation::continued_text() const {
  const bool continues = add_generation_prompt && continue_final_message && ends_with_answer();
  return continues ? text_of(messages.back().content) : "";
}

ChatRequest Conversation::request() const {
  ChatRequest request;
  for (const Message& message : messages) {
    request.messages.push_back(json_of(message));
  }
  if (tools && !selection.none) {
    request.tools = ordered_json::array();
    for (const Tool& tool : *tools) {
      request.tools.push_back(tool.declaration);
    }
  }
  request.arguments = arguments;
  if (reasoning.effort) {
    request.arguments["reasoning_effort"] = *reasoning.effort;
    if (*reasoning.effort == "none") {
      switch_thinking(request.arguments, false);
    }
  }
  if (reasoning.is_on) {
    switch_thinking(request.arguments, *reasoning.is_on);
  }
  request.add_generation_prompt = add_generation_prompt;
  request.continue_final_message = continue_final_message;
  return request;
}

}  // namespace rocmforge
