#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>

namespace rocmforge {

// Messages of a conversation as OpenAI's API writes them.

/// The text of a key, "" where there is none.
inline std::string string_of(const nlohmann::ordered_json& object, std::string_view key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

/// A tool or a call: the function, which may stand by itself.
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

}  // namespace rocmforge
