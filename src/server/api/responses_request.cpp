#include "server/api/responses_request.h"

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>

#include "chat/message_json.h"
#include "server/api/responses_items.h"

namespace rocmforge {
namespace responses {
namespace {

/// Adds the tools that items name: a search's results, and those that came later.
void add_found_tools(Fields& fields, const Json& input, OfferedTools& tools) {
  for (std::size_t i = 0; i < input.size(); ++i) {
    const std::string type = input[i].is_object() ? string_of(input[i], "type") : "";
    if (type == "tool_search_output" || type == "additional_tools") {
      Fields item = fields.inner(input[i], fmt::format("input[{}].", i));
      tools.add_all(item, "tools");
    }
  }
}

Json messages_of(Fields& fields, Json earlier, OfferedTools& tools) {
  Json messages = Json::array();
  if (const auto instructions = fields.text("instructions")) {
    messages.push_back({{"role", "system"}, {"content", *instructions}});
  }
  for (Json& message : earlier) {
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
  for (std::size_t i = 0; input->is_array() && i < input->size(); ++i) {
    Fields item = fields.inner((*input)[i], fmt::format("input[{}].", i));
    conversation.add(item);
  }
  return conversation.take();
}

/// The function that a choice names. Tools that the client runs are known by their types.
Json function_named(Fields& fields, const OfferedTools& tools) {
  const std::string type = fields.text("type").value_or("function");
  const std::string name = type == "function" || type == "custom" ? fields.needed_text("name") : type;
  return wrapped_function({{"name", tools.model_name(name, fields.text("namespace").value_or(""))}});
}

void read_choice_of_tools(Fields& fields, const OfferedTools& tools, Json& chat) {
  const Json* given = fields.find("tool_choice");
  if (given == nullptr || given->is_string()) {
    return;
  }
  Fields choice = fields.inner(*given, "tool_choice.");
  const std::string type = choice.needed_text("type");
  if (type == "allowed_tools") {
    Json allowed = Json::array();
    const Json* named = choice.array("tools");
    for (std::size_t i = 0; named != nullptr && i < named->size(); ++i) {
      Fields tool = choice.inner((*named)[i], fmt::format("tool_choice.tools[{}].", i));
      allowed.push_back(function_named(tool, tools));
    }
    const std::string mode = choice.choice("mode", {"auto", "required"}).value_or("auto");
    chat["tool_choice"] = {{"type", "allowed_tools"}, {"allowed_tools", {{"mode", mode}, {"tools", std::move(allowed)}}}};
  } else if (type == "function" || type == "custom" || tools.offers(type)) {
    chat["tool_choice"] = function_named(choice, tools);
  } else {
    choice.fail("type", fmt::format("is '{}': this server runs no tools of its own", type.substr(0, 64)));
  }
}

void read_text(Fields& fields, Json& chat) {
  const Json* given = fields.object("text");
  if (given == nullptr) {
    return;
  }
  Fields text(*given, "text.");
  const Json* object = text.object("format");
  if (object == nullptr) {
    return;
  }
  Fields format(*object, "text.format.");
  const auto type = format.choice("type", {"text", "json_object", "json_schema"});
  if (type == "json_object") {
    chat["response_format"] = {{"type", "json_object"}};
  } else if (type == "json_schema") {
    chat["response_format"] = schema_format(format.needed_object("schema"), format.text("name").value_or("answer"));
  }
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

Json chat_body_of_responses(Fields& fields, Json earlier, OfferedTools& tools) {
  responses::refuse_what_is_not_served(fields);
  Json chat = fields.json();
  for (const std::string_view name :
       {"input", "instructions", "tools", "text", "reasoning", "previous_response_id", "max_output_tokens", "max_tool_calls",
        "include", "truncation", "background", "top_logprobs", "stream_options"}) {
    chat.erase(std::string(name));
  }
  tools.add_all(fields, "tools");
  chat["messages"] = responses::messages_of(fields, std::move(earlier), tools);
  if (Json functions = tools.take_functions(); !functions.empty()) {
    chat["tools"] = std::move(functions);
  }
  responses::read_choice_of_tools(fields, tools, chat);
  responses::read_text(fields, chat);
  if (const Json* given = fields.object("reasoning")) {
    Fields reasoning(*given, "reasoning.");
    if (const auto effort = reasoning.text("effort")) {
      chat["reasoning_effort"] = *effort;
    }
    if (const Json* most = reasoning.find("max_tokens")) {
      chat["reasoning.max_tokens"] = *most;  // so that a message names it
    }
  }
  if (const Json* most = fields.find("max_output_tokens")) {
    chat["max_tokens"] = *most;
  }
  return chat;
}

}  // namespace rocmforge
