#include "server/api/anthropic_request.h"

#include <fmt/format.h>

#include <optional>
#include <string>
#include <utility>

#include "chat/message_json.h"
#include "server/api/client_tools.h"
#include "server/api/content_parts.h"

namespace rocmforge {
namespace anthropic {
namespace {

/// A text, or an array of blocks of which `take` takes each.
template <class Take>
void read_blocks(Fields& fields, std::string_view name, const Take& take) {
  const Json* content = fields.find(name);
  if (content == nullptr) {
    fields.fail(name, "is missing");
  }
  if (content->is_string()) {
    const Json block = text_part(content->get<std::string>());
    Fields part(block);
    return take(part, std::string("text"));
  }
  if (!content->is_array()) {
    fields.fail(name, "must be a string or an array of blocks");
  }
  for (std::size_t i = 0; i < content->size(); ++i) {
    Fields block = fields.inner((*content)[i], fmt::format("{}[{}].", fields.full_name(name), i));
    const std::string type = block.needed_text("type");
    take(block, type);
  }
}

/// The results of calls become messages of their own, before the text.
void add_user_message(Fields& message, Json& messages) {
  const std::size_t before = messages.size();
  Json parts = Json::array();
  read_blocks(message, "content", [&](Fields& block, const std::string& type) {
    if (type == "tool_result") {
      Json result = {{"role", "tool"}, {"tool_call_id", block.needed_text("tool_use_id")}, {"content", ""}};
      if (block.has("content")) {
        result["content"] = shown_content(block, "content");
      }
      if (block.boolean("is_error").value_or(false)) {
        result["is_error"] = true;
      }
      messages.push_back(std::move(result));
    } else {
      parts.push_back(text_part(shown_text(block)));
    }
  });
  if (!parts.empty() || messages.size() == before) {
    messages.push_back({{"role", "user"}, {"content", content_of_parts(std::move(parts))}});
  }
}

void add_assistant_message(Fields& message, Json& messages) {
  Json parts = Json::array();
  Json calls = Json::array();
  std::string reasoning;
  read_blocks(message, "content", [&](Fields& block, const std::string& type) {
    if (type == "thinking") {
      reasoning += block.needed_text("thinking");
    } else if (type == "tool_use") {
      const std::string input = to_text(block.needed_object("input"));
      const std::string name = block.needed_text("name");
      calls.push_back(call_message(block.needed_text("id"), name, input));
    } else if (type != "redacted_thinking") {  // it is encrypted and is left out
      parts.push_back(text_part(shown_text(block)));
    }
  });
  Json answer = {{"role", "assistant"}, {"content", content_of_parts(std::move(parts))}};
  if (!reasoning.empty()) {
    answer["reasoning_content"] = std::move(reasoning);
  }
  if (!calls.empty()) {
    answer["tool_calls"] = std::move(calls);
  }
  messages.push_back(std::move(answer));
}

Json messages_of(Fields& fields) {
  Json messages = Json::array();
  if (fields.has("system")) {
    messages.push_back({{"role", "system"}, {"content", shown_content(fields, "system")}});
  }
  const Json* given = fields.array("messages");
  if (given == nullptr || given->empty()) {
    fields.fail("messages", "must be an array of at least one message");
  }
  for (std::size_t i = 0; i < given->size(); ++i) {
    Fields message = fields.inner((*given)[i], fmt::format("messages[{}].", i));
    const std::string role = message.needed_choice("role", {"user", "assistant", "system"});
    if (role == "system") {
      messages.push_back(plain_message(role, shown_content(message, "content")));
    } else {
      role == "user" ? add_user_message(message, messages) : add_assistant_message(message, messages);
    }
  }
  return messages;
}

/// A tool as a function; null for one that runs on the vendor's server.
Json function_of_tool(Fields& tool) {
  const std::string type = tool.text("type").value_or("custom");
  if (type != "custom") {
    std::optional<Json> function = function_of_client_tool(type, tool.text("name").value_or(""));
    if (!function) {
      tool.note(type);
    }
    return function ? *std::move(function) : Json();
  }
  Json function = {{"name", tool.needed_text("name")}};
  if (const auto description = tool.text("description")) {
    function["description"] = *description;
  }
  function["parameters"] = tool.needed_object("input_schema");
  if (tool.boolean("strict").value_or(false)) {
    function["strict"] = true;
  }
  return function;
}

Json tools_of(Fields& fields) {
  const Json* given = fields.array("tools");
  Json tools = Json::array();
  for (std::size_t i = 0; given != nullptr && i < given->size(); ++i) {
    Fields tool = fields.inner((*given)[i], fmt::format("tools[{}].", i));
    if (Json function = function_of_tool(tool); !function.is_null()) {
      tools.push_back(wrapped_function(std::move(function)));
    }
  }
  return tools;
}

void read_choice_of_tools(Fields& fields, Json& chat) {
  const Json* given = fields.object("tool_choice");
  if (given == nullptr) {
    return;
  }
  Fields choice(*given, "tool_choice.");
  const std::string type = choice.choice("type", {"auto", "any", "tool", "none"}).value_or("auto");
  if (type == "tool") {
    chat["tool_choice"] = wrapped_function({{"name", choice.needed_text("name")}});
  } else {
    chat["tool_choice"] = type == "any" ? "required" : type;
  }
  if (choice.boolean("disable_parallel_tool_use").value_or(false)) {
    chat["parallel_tool_calls"] = false;
  }
}

void read_format(const Json& given, const std::string& path, Json& chat) {
  Fields format(given, path + ".");
  static_cast<void>(format.needed_choice("type", {"json_schema"}));
  chat["response_format"] = schema_format(format.needed_object("schema"));
}

void read_output(Fields& fields, Json& chat) {
  if (const Json* format = fields.object("output_format")) {
    read_format(*format, "output_format", chat);
  }
  const Json* given = fields.object("output_config");
  if (given == nullptr) {
    return;
  }
  Fields config(*given, "output_config.");
  if (const auto effort = config.text("effort")) {
    chat["reasoning_effort"] = *effort;
  }
  if (const Json* format = config.object("format")) {
    read_format(*format, "output_config.format", chat);
  }
}

}  // namespace
}  // namespace anthropic

Json chat_body_of_anthropic(Fields& fields) {
  Json chat = fields.json();
  for (const std::string_view name :
       {"system", "tools", "tool_choice", "output_config", "output_format", "stop_sequences", "cache_control"}) {
    chat.erase(std::string(name));
  }
  chat["messages"] = anthropic::messages_of(fields);
  if (Json tools = anthropic::tools_of(fields); !tools.empty()) {
    chat["tools"] = std::move(tools);
  }
  anthropic::read_choice_of_tools(fields, chat);
  anthropic::read_output(fields, chat);
  if (const Json* stop = fields.find("stop_sequences")) {
    chat["stop"] = *stop;
  }
  return chat;
}

}  // namespace rocmforge
