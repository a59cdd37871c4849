#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "base/json.h"

namespace rocmforge {

// Helpers for messages of a conversation in the form of OpenAI's API.

/// The text of a key, "" when there is none.
inline std::string string_of(const nlohmann::ordered_json& object, std::string_view key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

inline bool is_role(const nlohmann::ordered_json& message, std::string_view role) {
  const auto found = message.find("role");
  return found != message.end() && found->is_string() && found->get_ref<const std::string&>() == role;
}

/// The function of a tool or a call, which may be wrapped or bare.
inline const nlohmann::ordered_json& function_of(const nlohmann::ordered_json& wrapped) {
  const auto found = wrapped.find("function");
  return found != wrapped.end() ? *found : wrapped;
}

inline nlohmann::ordered_json plain_message(std::string_view role, nlohmann::ordered_json content) {
  return {{"role", role}, {"content", std::move(content)}};
}

inline nlohmann::ordered_json text_part(nlohmann::ordered_json text) {
  return {{"type", "text"}, {"text", std::move(text)}};
}

/// The place of an image among the parts of a content.
inline nlohmann::ordered_json image_part() { return {{"type", "image"}}; }
inline bool is_image_part(const nlohmann::ordered_json& part) {
  return part.is_object() && string_of(part, "type") == "image";
}

/// The place of a recording among them.
inline nlohmann::ordered_json sound_part() { return {{"type", "audio"}}; }
inline bool is_sound_part(const nlohmann::ordered_json& part) {
  return part.is_object() && string_of(part, "type") == "audio";
}
inline bool is_media_part(const nlohmann::ordered_json& part) { return is_image_part(part) || is_sound_part(part); }

/// A tool.
inline nlohmann::ordered_json wrapped_function(nlohmann::ordered_json function) {
  return {{"type", "function"}, {"function", std::move(function)}};
}

/// A call of an assistant's message. `arguments` is JSON text.
inline nlohmann::ordered_json call_message(std::string_view id, std::string_view name, std::string_view arguments) {
  return {{"id", id}, {"type", "function"}, {"function", {{"name", name}, {"arguments", arguments}}}};
}

}  // namespace rocmforge
