#include "chat/tool_call_object.h"

#include <utility>

#include "base/json.h"

namespace rocmforge {
namespace {

bool is_json_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

bool names_arguments(std::string_view key) { return key == "arguments" || key == "parameters"; }

bool names_function(std::string_view key) { return key == "name" || key == "tool_name"; }

// Command models number their calls within an answer, so that "tool_call_id" is no id among several answers.
bool is_key_of_calls(std::string_view key) {
  return names_function(key) || key == "tool_call_id" || key == "id" || key == "type" || key == "function" ||
         key == "tool_calls" || names_arguments(key);
}

/// The text of a JSON string; the argument itself when it is not one.
std::string decoded(const std::string& json) {
  const auto value = nlohmann::json::parse(json, nullptr, false);
  return value.is_string() ? value.get<std::string>() : json;
}

}  // namespace

void ToolCallObject::step(char c) {
  switch (place_) {
    case Place::in_key:
      value_ += c;
      if (!escaped_ && c == '"') {
        key_ = decoded(value_);
        has_other_keys_ = has_other_keys_ || !is_key_of_calls(key_);
        place_ = Place::colon;
      }
      escaped_ = !escaped_ && c == '\\';
      return;
    case Place::in_text:
      value_ += c;
      if (!escaped_ && c == '"') {
        end_text();
      }
      escaped_ = !escaped_ && c == '\\';
      return;
    case Place::in_arguments:
    case Place::in_other:
      if (!ends_before(c)) {
        (place_ == Place::in_arguments ? arguments_ : value_) += c;
        return;
      }
      if (place_ == Place::in_arguments) {
        end_arguments();
      }
      place_ = Place::after_value;
      break;
    default:
      break;
  }
  if (is_json_space(c)) {
    return;
  }
  switch (place_) {
    case Place::before:
      place_ = Place::key;
      status_ = c == '{' ? Status::reading : Status::failed;
      break;
    case Place::key:
      if (c == '}' && has_name()) {  // an empty object after the name, or a comma before the end
        status_ = Status::done;
        break;
      }
      value_ = c;
      escaped_ = false;
      status_ = c == '"' ? Status::reading : Status::failed;
      place_ = Place::in_key;
      break;
    case Place::colon:
      place_ = Place::value;
      status_ = c == ':' ? Status::reading : Status::failed;
      break;
    case Place::value:
      begin_value(c);
      break;
    case Place::after_value:
      if (c == ',') {
        place_ = Place::key;
      } else {
        status_ = c == '}' && has_name() ? Status::done : Status::failed;
      }
      break;
    default:
      status_ = Status::failed;
      break;
  }
}

void ToolCallObject::begin_value(char c) {
  value_ = c;
  depth_ = c == '{' || c == '[' ? 1 : 0;
  in_string_ = c == '"';
  escaped_ = false;
  is_scalar_ = depth_ == 0 && !in_string_;
  const bool is_name = names_function(key_) && !has_name();
  const bool is_arguments = names_arguments(key_) && !has_arguments_;
  if (std::string_view(",:}]").find(c) != std::string_view::npos || (is_name && c != '"')) {
    status_ = Status::failed;
  } else if (c == '"' && (is_name || key_ == "id" || is_arguments)) {
    place_ = Place::in_text;
    in_string_ = false;
  } else if (is_arguments) {
    place_ = Place::in_arguments;
    arguments_ = c;
    has_arguments_ = true;
  } else {
    place_ = Place::in_other;
  }
}

bool ToolCallObject::ends_before(char c) {
  if (in_string_) {
    in_string_ = escaped_ || c != '"';
    escaped_ = !escaped_ && c == '\\';
    return false;
  }
  if (depth_ == 0 && (!is_scalar_ || c == ',' || c == '}' || c == ']' || is_json_space(c))) {
    return true;
  }
  in_string_ = c == '"';
  escaped_ = false;
  depth_ += c == '{' || c == '[' ? 1 : 0;
  depth_ -= c == '}' || c == ']' ? 1 : 0;
  return false;
}

void ToolCallObject::end_text() {
  std::string text = decoded(value_);
  if (names_function(key_)) {
    name_ = std::move(text);
    status_ = has_name() ? status_ : Status::failed;
  } else if (key_ == "id") {
    id_ = std::move(text);
  } else {  // arguments as JSON text in a JSON string
    arguments_ = text.empty() ? "{}" : std::move(text);
    has_arguments_ = true;
  }
  place_ = Place::after_value;
}

void ToolCallObject::end_arguments() {
  if (arguments_ == "null") {
    arguments_ = "{}";
  }
}

std::string ToolCallObject::take_arguments() {
  if (status_ == Status::done && !has_arguments_) {
    has_arguments_ = true;
    return "{}";
  }
  // A bare word may become null, which means no arguments.
  const bool may_be_null = place_ == Place::in_arguments && is_scalar_ && std::string_view("null").starts_with(arguments_);
  return has_name() && !may_be_null ? std::exchange(arguments_, "") : "";
}

}  // namespace rocmforge
