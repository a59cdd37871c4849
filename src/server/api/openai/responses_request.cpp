#include "server/api/openai/responses_request.h"

#include <fmt/format.h>

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "chat/message_json.h"
#include "server/api/asked_grammar.h"
#include "server/api/conversation_fields.h"
#include "server/api/openai/responses_items.h"
#include "server/api/reasoning_fields.h"

namespace rocmforge {
namespace responses {
namespace {

/// Adds the tools that items name: a search's results, and those that came later.
void add_found_tools(Fields& fields, const Json& input, OfferedTools& tools) {
  for (std::size_t i = 0; i < input.size(); ++i) {
    const std::string type = input[i].is_object() ? string_of(input[i], "type") : "";
    if (type == "tool_search_output" || type == "additional_tools") {
      Fields item = fields.element("input", input, i);
      tools.add_all(item, "tools");
    }
  }
}

std::vector<Message> read_messages(Fields& fields, std::vector<Message> earlier, OfferedTools& tools) {
  std::vector<Message> messages;
  if (const auto instructions = fields.text("instructions")) {
    messages.push_back(text_message(Role::system, *instructions));
  }
  for (Message& message : earlier) {
    messages.push_back(std::move(message));
  }
  const Json* input = fields.find("input");
  if (input == nullptr || (!input->is_string() && !input->is_array()) || input->empty()) {
    fields.fail("input", "must be a string or an array of at least one item");
  }
  if (input->is_array()) {
    add_found_tools(fields, *input, tools);
  }
  ItemConversation conversation(std::move(messages), tools);
  if (input->is_string()) {
    conversation.add_text(input->get<std::string>());
  }
  fields.each("input", input->is_array() ? input : nullptr, [&conversation](Fields& item) { conversation.add(item); });
  messages = conversation.take();
  check_message_count(fields, "input", messages.size());
  return messages;
}

/// The function that a choice names. Tools that the client runs are known by their types.
std::string function_named(Fields& fields, const OfferedTools& tools) {
  const std::string type = fields.text("type").value_or("function");
  const std::string name = type == "function" || type == "custom" ? fields.needed_text("name") : type;
  return tools.model_name(name, fields.text("namespace").value_or(""));
}

void read_allowed_tools(Fields& choice, const OfferedTools& tools, ToolSelection& selection) {
  const Json* named = choice.array("tools");
  if (named == nullptr || named->empty()) {
    choice.fail("tools", "names no tool");
  }
  choice.each("tools", named, [&](Fields& tool) { selection.allowed.push_back(function_named(tool, tools)); });
  selection.choice.is_required = choice.choice("mode", {"auto", "required"}) == "required";
}

ToolSelection read_choice(Fields& fields, const OfferedTools& tools, bool has_tools) {
  ToolSelection selection;
  selection.choice.parallel = fields.boolean("parallel_tool_calls").value_or(true);
  const Json* given = fields.find("tool_choice");
  if (given != nullptr && given->is_string()) {
    const auto mode = fields.choice("tool_choice", {"none", "auto", "required"});
    selection.none = mode == "none";
    selection.choice.is_required = mode == "required";
  } else if (given != nullptr) {
    Fields choice = fields.inner(*given, "tool_choice.");
    const std::string type = choice.needed_text("type");
    if (type == "allowed_tools") {
      read_allowed_tools(choice, tools, selection);
    } else if (type == "function" || type == "custom" || tools.offers(type)) {
      selection.choice.is_required = true;
      selection.choice.name = function_named(choice, tools);
    } else {
      choice.fail("type", fmt::format("is '{}': this server runs no tools of its own", type.substr(0, 64)));
    }
  }
  if (selection.choice.is_required && !has_tools) {
    fields.fail("tool_choice", "needs tools");
  }
  return selection;
}

std::optional<AskedFormat> read_text(Fields& fields) {
  const Json* given = fields.object("text");
  if (given == nullptr) {
    return std::nullopt;
  }
  Fields text(*given, "text.");
  const Json* object = text.object("format");
  if (object == nullptr) {
    return std::nullopt;
  }
  Fields format(*object, "text.format.");
  const auto type = format.choice("type", {"text", "json_object", "json_schema"});
  if (type == "json_object") {
    return AskedFormat{.field = "text.format"};
  }
  if (type != "json_schema") {
    return std::nullopt;
  }
  const Json& schema = format.needed_object("schema");
  if (const auto name = format.text("name")) {
    check_schema_name(format, *name);
  }
  return AskedFormat{.schema = &schema, .field = format.full_name("schema")};
}

void read_own_reasoning(Fields& fields, Reasoning& reasoning) {
  const Json* given = fields.object("reasoning");
  if (given == nullptr) {
    return;
  }
  Fields inner(*given, "reasoning.");
  if (auto effort = inner.text("effort")) {
    reasoning.effort = std::move(effort);
  }
  read_reasoning_limit(inner, "max_tokens", reasoning);
}

void refuse_what_is_not_served(Fields& fields) {
  if (fields.boolean("background").value_or(false)) {
    fields.fail("background", "is true: this server answers while the client waits");
  }
  if (fields.integer("top_logprobs", 0, 20).value_or(0) > 0) {
    fields.fail("top_logprobs", "are given by /v1/chat/completions alone");
  }
  for (const char* name : {"conversation", "prompt"}) {
    if (fields.has(name)) {
      fields.fail(name, "names what OpenAI keeps; previous_response_id and input are served");
    }
  }
}

}  // namespace
}  // namespace responses

Conversation read_responses(Fields& fields, std::vector<Message> earlier, OfferedTools& tools, Reading& reading) {
  hold_conversation(reading);
  responses::refuse_what_is_not_served(fields);
  tools.add_all(fields, "tools");
  Conversation conversation{.messages = responses::read_messages(fields, std::move(earlier), tools)};
  conversation.field = "input";
  conversation.tools = tools.take();
  conversation.selection = responses::read_choice(fields, tools, conversation.tools.has_value());
  read_template_fields(fields, conversation);
  read_reasoning_limits(fields, conversation.reasoning);
  responses::read_own_reasoning(fields, conversation.reasoning);
  conversation.format = responses::read_text(fields);
  fields.ignore({"previous_response_id", "max_tool_calls", "include", "truncation"});
  return conversation;
}

}  // namespace rocmforge
