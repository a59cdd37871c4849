#include "server/api/conversation_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>

#include "chat/message_json.h"
#include "server/api/client_tools.h"
#include "server/api/content_parts.h"
#include "server/api/reasoning_fields.h"

namespace rocmforge {
namespace {

/// A string, parts, or nothing but a refusal. Of parts that are no text nor image the model gets what it sees of them.
Content read_content(Fields& message) {
  const Json* content = message.find("content");
  if (content == nullptr) {
    const auto refusal = message.text("refusal");
    return refusal ? Content(*refusal) : Content();
  }
  if (content->is_string()) {
    return content->get<std::string>();
  }
  if (!content->is_array()) {
    message.fail("content", "must be a string or an array of parts");
  }
  std::vector<Part> parts;
  message.each("content", content, [&parts](Fields& part) { parts.push_back(shown_part(part)); });
  return parts;
}

/// A call of a function, or of a tool that takes a text, which becomes one.
MessageCall read_call(Fields& call) {
  MessageCall read{.id = string_of(call.json(), "id")};
  if (call.choice("type", {"function", "custom"}) == "custom") {
    Fields inner(call.needed_object("custom"), call.full_name("custom") + ".");
    read.arguments = to_text({{"input", inner.needed_text("input")}});
    static_cast<void>(call.text("id"));
    read.name = inner.needed_text("name");
    return read;
  }
  const Json& function = call.needed_object("function");
  Fields inner(function, call.full_name("function") + ".");
  read.name = inner.needed_text("name");
  if (const auto arguments = function.find("arguments"); arguments != function.end()) {
    read.arguments = *arguments;
  }
  Json::object_t others;
  for (const auto& [name, value] : call.json().items()) {
    if (name != "type" && name != "function" && (name != "id" || read.id.empty())) {
      others.push_back({name, value});
    }
  }
  if (!others.empty()) {
    read.others = std::move(others);
  }
  return read;
}

/// The text of a member, which is typed then; what has another type stays among the members for the template.
void take_text(const Json& value, std::string& into, bool& is_taken) {
  is_taken = value.is_string() && !value.get_ref<const std::string&>().empty();
  if (is_taken) {
    into = value.get<std::string>();
  }
}

Message read_message(Fields& fields) {
  const std::string role = fields.needed_choice("role", {"system", "developer", "user", "assistant", "tool"});
  Message message{.role = *role_of(role), .content = read_content(fields)};
  fields.each("tool_calls", fields.array("tool_calls"),
              [&message](Fields& call) { message.calls.push_back(read_call(call)); });
  static_cast<void>(fields.text("reasoning_content"));
  Json::object_t others;
  for (const auto& [name, value] : fields.json().items()) {
    bool is_typed = name == "role" || name == "content" || name == "tool_calls";
    if (name == "reasoning_content") {
      take_text(value, message.reasoning, is_typed);
    } else if (name == "tool_call_id") {
      take_text(value, message.call_id, is_typed);
    } else if (name == "name") {
      take_text(value, message.name, is_typed);
    }
    if (!is_typed) {
      others.push_back({name, value});
    }
  }
  if (!others.empty()) {
    message.others = std::move(others);
  }
  return message;
}

std::vector<Message> read_messages(Fields& fields) {
  const Json* given = fields.array("messages");
  check_message_count(fields, "messages", given == nullptr ? 0 : given->size(), 1);
  std::vector<Message> messages;
  messages.reserve(given->size());
  fields.each("messages", given, [&messages](Fields& message) { messages.push_back(read_message(message)); });
  return messages;
}

/// A tool that takes a text, as a function.
Tool read_custom_tool(Fields& tool) {
  Fields inner = tool.inner(tool.needed_object("custom"), tool.full_name("custom") + ".");
  TextSyntax syntax;
  if (const Json* format = inner.object("format"); format != nullptr && string_of(*format, "type") == "grammar") {
    Fields outer = inner.inner(*format, inner.full_name("format."));
    Fields grammar = outer.inner(outer.needed_object("grammar"), outer.full_name("grammar."));
    syntax = {.kind = grammar.needed_text("syntax"), .definition = grammar.needed_text("definition")};
  }
  const std::string name = inner.needed_text("name");
  return text_tool(name, inner.text("description").value_or(""), syntax);
}

/// The name of a function, or of a tool that takes a text.
std::string function_name(Fields& fields) {
  const char* const kind = fields.text("type") == "custom" ? "custom" : "function";
  Fields inner(fields.needed_object(kind), fields.full_name(kind) + ".");
  return inner.needed_text("name");
}

void read_allowed_tools(Fields& fields, ToolSelection& selection) {
  Fields inner(fields.needed_object("allowed_tools"), "tool_choice.allowed_tools.");
  selection.choice.is_required = inner.choice("mode", {"auto", "required"}) == "required";
  const Json* tools = inner.array("tools");
  if (tools == nullptr || tools->empty()) {
    inner.fail("tools", "names no tool");
  }
  inner.each("tools", tools, [&selection](Fields& tool) { selection.allowed.push_back(function_name(tool)); });
}

}  // namespace

void hold_conversation(Reading& reading) {
  // The conversation itself, as adapted for the template, as the template gets it, and the rendered prompt.
  constexpr std::int64_t copies = 4;
  reading.hold(copies * reading.held());
}

Conversation read_conversation(Fields& fields, Reading& reading) {
  hold_conversation(reading);
  Conversation conversation{.messages = read_messages(fields)};
  conversation.tools = read_tools(fields);
  read_template_fields(fields, conversation);
  return conversation;
}

Conversation read_chat_request(Fields& fields, Reading& reading) {
  ToolSelection selection = read_tool_choice(fields);
  Conversation conversation = read_conversation(fields, reading);
  conversation.selection = std::move(selection);
  read_reasoning_limits(fields, conversation.reasoning);
  return conversation;
}

void check_message_count(const Fields& fields, std::string_view name, std::size_t count, std::size_t least) {
  if (count < least || count > most_messages) {
    fields.fail(name, fmt::format("must be an array of 1 to {} messages", most_messages));
  }
}

const Json* find_tools(Fields& fields, std::string_view name) {
  const Json* tools = fields.array(name);
  if (tools != nullptr && tools->size() > most_tools) {
    fields.fail(name, fmt::format("holds {} tools, at most {}", tools->size(), most_tools));
  }
  return tools;
}

std::string needed_tool_name(Fields& tool) {
  std::string name = tool.needed_text("name");
  if (name.empty()) {
    tool.fail("name", "is missing");
  }
  return name;
}

std::optional<std::vector<Tool>> read_tools(Fields& fields) {
  const Json* given = find_tools(fields, "tools");
  if (given == nullptr) {
    return std::nullopt;
  }
  std::vector<Tool> tools;
  fields.each("tools", given, [&tools](Fields& tool) {
    const std::string type = tool.text("type").value_or("function");
    if (type == "custom") {
      tools.push_back(read_custom_tool(tool));
    } else if (type != "function") {
      tool.note(type);
    } else {
      Fields inner(tool.needed_object("function"), tool.full_name("function") + ".");
      std::string name = needed_tool_name(inner);
      static_cast<void>(inner.object("parameters"));
      tools.push_back({.name = std::move(name), .declaration = tool.json()});
    }
  });
  return tools;
}

ToolSelection read_tool_choice(Fields& fields) {
  ToolSelection selection;
  selection.choice.parallel = fields.boolean("parallel_tool_calls").value_or(true);
  const Json* value = fields.find("tool_choice");
  if (value == nullptr) {
    return selection;
  }
  if (value->is_string()) {
    const auto mode = fields.choice("tool_choice", {"none", "auto", "required"});
    selection.none = mode == "none";
    selection.choice.is_required = mode == "required";
  } else {
    Fields object(*value, "tool_choice.");
    const auto type = object.choice("type", {"function", "custom", "allowed_tools"});
    if (type == "allowed_tools") {
      read_allowed_tools(object, selection);
    } else {
      selection.choice.is_required = true;
      selection.choice.name = function_name(object);
    }
  }
  if (const Json* tools = fields.array("tools"); selection.choice.is_required && (tools == nullptr || tools->empty())) {
    fields.fail("tool_choice", "needs tools");
  }
  return selection;
}

void read_template_fields(Fields& fields, Conversation& conversation) {
  if (const Json* given = fields.object("chat_template_kwargs")) {
    conversation.arguments = *given;
  }
  read_thinking(fields, conversation.reasoning);
  // The answer begins in a new message, in the last assistant's message, or, without a generation prompt, where the
  // template ends. By default an assistant's message at the end is continued.
  const auto generation_prompt = fields.boolean("add_generation_prompt");
  const auto continued = fields.boolean("continue_final_message");
  if (generation_prompt.value_or(false) && continued.value_or(false)) {
    fields.fail("continue_final_message", "and add_generation_prompt can't both be true");
  }
  if (continued.value_or(false) && !conversation.ends_with_answer()) {
    fields.fail("continue_final_message", "needs an assistant's message without tool_calls at the end");
  }
  conversation.continue_final_message = continued.value_or(!generation_prompt.value_or(false));
  // The continued message follows the prompt for an answer.
  conversation.add_generation_prompt = generation_prompt.value_or(true) || continued.value_or(false);
  fields.ignore({"add_special_tokens"});  // the prompt has one BOS in either case
}

}  // namespace rocmforge
