#include "server/api/anthropic/anthropic_request.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "chat/message_json.h"
#include "server/api/api_error.h"
#include "server/api/client_tools.h"
#include "server/api/content_parts.h"
#include "server/api/conversation_fields.h"
#include "server/api/reasoning_fields.h"

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
  fields.each(name, content, [&take](Fields& block) {
    const std::string type = block.needed_text("type");
    take(block, type);
  });
}

/// The results of calls become messages of their own, before the text.
void add_user_message(Fields& fields, std::vector<Message>& messages) {
  const std::size_t before = messages.size();
  std::vector<Part> parts;
  read_blocks(fields, "content", [&](Fields& block, const std::string& type) {
    if (type == "tool_result") {
      Message result{.role = Role::tool, .content = "", .call_id = block.needed_text("tool_use_id")};
      if (block.has("content")) {
        result.content = shown_content(block, "content");
      }
      if (block.boolean("is_error").value_or(false)) {
        result.others = {{"is_error", true}};
      }
      messages.push_back(std::move(result));
    } else {
      parts.push_back(shown_part(block));
    }
  });
  if (!parts.empty() || messages.size() == before) {
    messages.push_back({.role = Role::user, .content = content_of(std::move(parts))});
  }
}

void add_assistant_message(Fields& fields, std::vector<Message>& messages) {
  Message message{.role = Role::assistant};
  std::vector<Part> parts;
  read_blocks(fields, "content", [&](Fields& block, const std::string& type) {
    if (type == "thinking") {
      message.reasoning += block.needed_text("thinking");
    } else if (type == "tool_use") {
      std::string input = to_text(block.needed_object("input"));
      std::string name = block.needed_text("name");
      message.calls.push_back({.id = block.needed_text("id"), .name = std::move(name), .arguments = std::move(input)});
    } else if (type != "redacted_thinking") {  // it is encrypted and is left out
      parts.push_back(shown_part(block));
    }
  });
  message.content = content_of(std::move(parts));
  messages.push_back(std::move(message));
}

std::vector<Message> read_messages(Fields& fields) {
  std::vector<Message> messages;
  if (fields.has("system")) {
    messages.push_back({.role = Role::system, .content = shown_content(fields, "system")});
  }
  const Json* given = fields.array("messages");
  if (given == nullptr || given->empty()) {
    fields.fail("messages", "must be an array of at least one message");
  }
  check_message_count(fields, "messages", given->size());
  fields.each("messages", given, [&messages](Fields& message) {
    const std::string role = message.needed_choice("role", {"user", "assistant", "system"});
    if (role == "system") {
      messages.push_back({.role = Role::system, .content = shown_content(message, "content")});
    } else {
      role == "user" ? add_user_message(message, messages) : add_assistant_message(message, messages);
    }
  });
  return messages;
}

/// The function that a tool is; null for a tool that runs on the vendor's server.
Json read_function(Fields& tool) {
  const std::string type = tool.text("type").value_or("custom");
  if (type != "custom") {
    std::optional<Json> function = function_of_client_tool(type, tool.text("name").value_or(""));
    if (!function) {
      tool.note(type);
    }
    return function ? *std::move(function) : Json();
  }
  Json function = {{"name", needed_tool_name(tool)}};
  if (const auto description = tool.text("description")) {
    function["description"] = *description;
  }
  function["parameters"] = tool.needed_object("input_schema");
  if (tool.boolean("strict").value_or(false)) {
    function["strict"] = true;
  }
  return function;
}

std::optional<std::vector<Tool>> read_own_tools(Fields& fields) {
  std::vector<Tool> tools;
  fields.each("tools", find_tools(fields, "tools"), [&tools](Fields& tool) {
    if (Json function = read_function(tool); !function.is_null()) {
      std::string name = string_of(function, "name");
      tools.push_back({.name = std::move(name), .declaration = wrapped_function(std::move(function))});
    }
  });
  return tools.empty() ? std::nullopt : std::optional(std::move(tools));
}

ToolSelection read_choice(Fields& fields, bool has_tools) {
  ToolSelection selection;
  selection.choice.parallel = fields.boolean("parallel_tool_calls").value_or(true);  // OpenAI's name
  const Json* given = fields.object("tool_choice");
  if (given == nullptr) {
    return selection;
  }
  Fields choice(*given, "tool_choice.");
  const std::string type = choice.choice("type", {"auto", "any", "tool", "none"}).value_or("auto");
  selection.none = type == "none";
  selection.choice.is_required = type == "any" || type == "tool";
  if (type == "tool") {
    selection.choice.name = choice.needed_text("name");
  }
  if (choice.boolean("disable_parallel_tool_use").value_or(false)) {
    selection.choice.parallel = false;
  }
  if (selection.choice.is_required && !has_tools) {
    fields.fail("tool_choice", "needs tools");
  }
  return selection;
}

AskedFormat read_format(const Json& given, const std::string& path) {
  Fields format(given, path + ".");
  static_cast<void>(format.needed_choice("type", {"json_schema"}));
  return {.schema = &format.needed_object("schema"), .field = format.full_name("schema")};
}

void read_output(Fields& fields, Conversation& conversation) {
  if (const Json* format = fields.object("output_format")) {
    conversation.format = read_format(*format, "output_format");
  }
  const Json* given = fields.object("output_config");
  if (given == nullptr) {
    return;
  }
  Fields config(*given, "output_config.");
  if (auto effort = config.text("effort")) {
    conversation.reasoning.effort = std::move(effort);
  }
  if (const Json* format = config.object("format")) {
    conversation.format = read_format(*format, "output_config.format");
  }
}

}  // namespace
}  // namespace anthropic

Conversation read_anthropic(Fields& fields, Reading& reading) {
  hold_conversation(reading);
  Conversation conversation{.messages = anthropic::read_messages(fields)};
  conversation.tools = anthropic::read_own_tools(fields);
  conversation.selection = anthropic::read_choice(fields, conversation.tools.has_value());
  read_template_fields(fields, conversation);
  read_reasoning_limits(fields, conversation.reasoning);
  anthropic::read_output(fields, conversation);
  fields.ignore({"cache_control"});
  return conversation;
}

}  // namespace rocmforge
