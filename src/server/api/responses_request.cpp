#include "server/api/responses_request.h"

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>

#include "chat/message_json.h"
#include "server/api/chat_prompt.h"

namespace rocmforge {
namespace responses {
namespace {

/// A text, or parts that are texts: one as such, several as parts.
Json content_of(Fields& fields, std::string_view name) {
  const Json* content = fields.find(name);
  if (content == nullptr) {
    fields.fail(name, "is missing");
  }
  if (content->is_string()) {
    return *content;
  }
  if (!content->is_array()) {
    fields.fail(name, "must be a string or an array of parts");
  }
  Json parts = Json::array();
  for (std::size_t i = 0; i < content->size(); ++i) {
    Fields part((*content)[i], fmt::format("{}[{}].", fields.full_name(name), i));
    const std::string type = part.needed_text("type");
    if (type != "input_text" && type != "output_text" && type != "text" && type != "refusal" && type != "reasoning_text" &&
        type != "summary_text") {
      part.fail("type", fmt::format("is '{}', which has no place here: the model takes text", type));
    }
    parts.push_back(text_part(part.needed_text(type == "refusal" ? "refusal" : "text")));
  }
  return content_of_parts(std::move(parts));
}

/// The messages of items: reasoning, text and calls of one turn become one message.
class Conversation {
 public:
  explicit Conversation(Json messages) : messages_(std::move(messages)) {}

  void add(Fields& item) {
    const std::string type = item.text("type").value_or("message");
    if (type == "message") {
      add_message(item);
    } else if (type == "reasoning") {
      add_reasoning(item);
    } else if (type == "function_call") {
      add_call(item);
    } else if (type == "function_call_output") {
      messages_.push_back(
          {{"role", "tool"}, {"tool_call_id", item.needed_text("call_id")}, {"content", content_of(item, "output")}});
    } else {
      item.fail("type", fmt::format("is '{}', which this server does not know", type));
    }
  }

  void add_text(const std::string& text) { messages_.push_back({{"role", "user"}, {"content", text}}); }
  Json take() { return std::move(messages_); }

 private:
  void add_message(Fields& item) {
    const std::string role = item.needed_choice("role", {"system", "developer", "user", "assistant"});
    Json content = content_of(item, "content");
    if (role == "assistant" && answer_goes_on() && messages_.back()["content"] == "" &&
        !messages_.back().contains("tool_calls")) {
      messages_.back()["content"] = std::move(content);
    } else {
      messages_.push_back(plain_message(role, std::move(content)));
    }
  }

  /// The reasoning itself if the client has it, else its summary.
  void add_reasoning(Fields& item) {
    for (const char* name : {"content", "summary"}) {
      const Json* parts = item.array(name);
      if (parts == nullptr || parts->empty()) {
        continue;
      }
      const Json content = content_of(item, name);
      std::string text = content.is_string() ? content.get<std::string>() : "";
      for (std::size_t i = 0; content.is_array() && i < content.size(); ++i) {
        text += content[i]["text"].get_ref<const std::string&>();
      }
      messages_.push_back({{"role", "assistant"}, {"content", ""}, {"reasoning_content", std::move(text)}});
      return;
    }
  }

  void add_call(Fields& item) {
    if (!answer_goes_on()) {
      messages_.push_back({{"role", "assistant"}, {"content", ""}});
    }
    const std::string name = item.needed_text("name");
    const std::string arguments = item.needed_text("arguments");
    messages_.back()["tool_calls"].push_back(call_message(item.needed_text("call_id"), name, arguments));
  }

  [[nodiscard]] bool answer_goes_on() const { return !messages_.empty() && messages_.back()["role"] == "assistant"; }

  Json messages_;
};

Json messages_of(Fields& fields, Json earlier) {
  Json messages = Json::array();
  if (const auto instructions = fields.text("instructions")) {
    messages.push_back({{"role", "system"}, {"content", *instructions}});
  }
  for (Json& message : earlier) {
    messages.push_back(std::move(message));
  }
  Conversation conversation(std::move(messages));
  const Json* input = fields.find("input");
  if (input == nullptr || (!input->is_string() && !input->is_array()) || input->empty()) {
    fields.fail("input", "must be a string or an array of at least one item");
  }
  if (input->is_string()) {
    conversation.add_text(input->get<std::string>());
  } else {
    for (std::size_t i = 0; i < input->size(); ++i) {
      Fields item((*input)[i], fmt::format("input[{}].", i));
      conversation.add(item);
    }
  }
  return conversation.take();
}

void read_tools(Fields& fields, Json& chat) {
  const Json* given = fields.array("tools");
  if (given != nullptr && given->size() > most_tools) {
    fields.fail("tools", fmt::format("holds {} tools, at most {}", given->size(), most_tools));
  }
  Json tools = Json::array();
  for (std::size_t i = 0; given != nullptr && i < given->size(); ++i) {
    Fields tool((*given)[i], fmt::format("tools[{}].", i));
    const std::string type = tool.needed_text("type");
    if (type != "function") {
      chat[tool.full_name("type")] = type;
      continue;
    }
    Json function = {{"name", tool.needed_text("name")}};
    for (const char* name : {"description", "parameters", "strict"}) {
      if (const Json* value = tool.find(name)) {
        function[name] = *value;
      }
    }
    tools.push_back(wrapped_function(std::move(function)));
  }
  if (!tools.empty()) {
    chat["tools"] = std::move(tools);
  }
}

Json function_named(Fields& fields) { return wrapped_function({{"name", fields.needed_text("name")}}); }

void read_choice_of_tools(Fields& fields, Json& chat) {
  const Json* given = fields.find("tool_choice");
  if (given == nullptr || given->is_string()) {
    return;
  }
  Fields choice(*given, "tool_choice.");
  const std::string type = choice.needed_text("type");
  if (type == "function") {
    chat["tool_choice"] = function_named(choice);
  } else if (type == "allowed_tools") {
    Json allowed = Json::array();
    const Json* tools = choice.array("tools");
    for (std::size_t i = 0; tools != nullptr && i < tools->size(); ++i) {
      Fields tool((*tools)[i], fmt::format("tool_choice.tools[{}].", i));
      allowed.push_back(function_named(tool));
    }
    const std::string mode = choice.choice("mode", {"auto", "required"}).value_or("auto");
    chat["tool_choice"] = {{"type", "allowed_tools"}, {"allowed_tools", {{"mode", mode}, {"tools", std::move(allowed)}}}};
  } else {
    choice.fail("type", fmt::format("is '{}': this server runs no tools of its own", type));
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

Json chat_body_of_responses(const Json& body, Json earlier) {
  Fields fields(body);
  responses::refuse_what_is_not_served(fields);
  Json chat = body;
  for (const std::string_view name :
       {"input", "instructions", "tools", "text", "reasoning", "previous_response_id", "max_output_tokens", "max_tool_calls",
        "include", "truncation", "background", "top_logprobs", "stream_options"}) {
    chat.erase(std::string(name));
  }
  chat["messages"] = responses::messages_of(fields, std::move(earlier));
  responses::read_tools(fields, chat);
  responses::read_choice_of_tools(fields, chat);
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
