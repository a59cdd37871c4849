#include "server/api/chat_prompt.h"

#include <fmt/format.h>

#include <utility>

#include "base/error.h"
#include "chat/message_json.h"
#include "server/api/api_error.h"
#include "server/api/client_tools.h"
#include "server/api/content_parts.h"
#include "server/api/thoughts.h"
#include "server/api/unserved_fields.h"

namespace rocmforge {
namespace {

constexpr std::size_t most_messages = 10'000;

/// A string, parts, or nothing but a refusal. Parts that are no text are replaced in `copy`, the same message, by what the
/// model sees of them.
void read_content(Fields& message, Json& copy) {
  const Json* content = message.find("content");
  if (content == nullptr) {
    if (const auto refusal = message.text("refusal")) {
      copy["content"] = *refusal;
    }
    return;
  }
  if (content->is_string()) {
    return;
  }
  if (!content->is_array()) {
    message.fail("content", "must be a string or an array of parts");
  }
  for (std::size_t i = 0; i < content->size(); ++i) {
    Fields part = message.inner((*content)[i], fmt::format("{}[{}].", message.full_name("content"), i));
    std::string text = shown_text(part);
    if (part.json()["type"] != "text") {
      copy["content"][i] = text_part(std::move(text));
    }
  }
}

/// Calls of tools that take a text become calls of functions in `copy`, the same message.
void read_tool_calls(Fields& message, Json& copy) {
  const Json* calls = message.array("tool_calls");
  for (std::size_t i = 0; calls != nullptr && i < calls->size(); ++i) {
    Fields call((*calls)[i], fmt::format("{}[{}].", message.full_name("tool_calls"), i));
    if (call.choice("type", {"function", "custom"}) == "custom") {
      Fields inner(call.needed_object("custom"), call.full_name("custom") + ".");
      const std::string arguments = to_text({{"input", inner.needed_text("input")}});
      copy["tool_calls"][i] = call_message(call.text("id").value_or(""), inner.needed_text("name"), arguments);
      continue;
    }
    Fields inner(call.needed_object("function"), call.full_name("function") + ".");
    static_cast<void>(inner.needed_text("name"));
  }
}

Json read_messages(Fields& fields) {
  const Json* messages = fields.array("messages");
  if (messages == nullptr || messages->empty() || messages->size() > most_messages) {
    fields.fail("messages", fmt::format("must be an array of 1 to {} messages", most_messages));
  }
  Json read = *messages;
  for (std::size_t i = 0; i < messages->size(); ++i) {
    Fields message = fields.inner((*messages)[i], fmt::format("messages[{}].", i));
    static_cast<void>(message.needed_choice("role", {"system", "developer", "user", "assistant", "tool"}));
    read_content(message, read[i]);
    read_tool_calls(message, read[i]);
    static_cast<void>(message.text("reasoning_content"));
  }
  return read;
}

/// A tool that takes a text, as a function. Its name is added to `relaxed` if its syntax can't be enforced.
Json function_of_custom(Fields& tool, std::vector<std::string>& relaxed) {
  Fields inner = tool.inner(tool.needed_object("custom"), tool.full_name("custom") + ".");
  TextSyntax syntax;
  if (const Json* format = inner.object("format"); format != nullptr && string_of(*format, "type") == "grammar") {
    Fields outer = inner.inner(*format, inner.full_name("format."));
    Fields grammar = outer.inner(outer.needed_object("grammar"), outer.full_name("grammar."));
    syntax = {.kind = grammar.needed_text("syntax"), .definition = grammar.needed_text("definition")};
  }
  const std::string name = inner.needed_text("name");
  const bool enforced = can_enforce(syntax);
  if (!enforced) {
    relaxed.push_back(name);
  }
  return wrapped_function(function_of_text_tool(name, inner.text("description").value_or(""), syntax, enforced));
}

/// An empty list stays empty, not null: templates distinguish them, as with transformers and vLLM. Tools that run on a
/// vendor's server are left out.
Json read_tools(Fields& fields, std::vector<std::string>& relaxed) {
  const Json* given = fields.array("tools");
  if (given == nullptr) {
    return nullptr;
  }
  if (given->size() > most_tools) {
    fields.fail("tools", fmt::format("holds {} tools, at most {}", given->size(), most_tools));
  }
  Json tools = Json::array();
  for (std::size_t i = 0; i < given->size(); ++i) {
    Fields tool = fields.inner((*given)[i], fmt::format("tools[{}].", i));
    const std::string type = tool.text("type").value_or("function");
    if (type == "custom") {
      tools.push_back(function_of_custom(tool, relaxed));
      continue;
    }
    if (type != "function") {
      tool.note(type);
      continue;
    }
    Fields inner(tool.needed_object("function"), tool.full_name("function") + ".");
    if (inner.needed_text("name").empty()) {
      inner.fail("name", "is missing");
    }
    static_cast<void>(inner.object("parameters"));
    tools.push_back((*given)[i]);
  }
  return tools;
}

Json read_arguments(Fields& fields, const ServedModel& model) {
  const Json* given = fields.object("chat_template_kwargs");
  Json arguments = given == nullptr ? Json::object() : *given;
  read_thinking_variables(fields, arguments);
  // The server's own names are few: searching all given ones for each would take quadratic time.
  for (const auto& [name, value] : model.template_arguments.items()) {
    if (!arguments.contains(name)) {
      arguments[name] = value;
    }
  }
  return arguments;
}

/// Whether the conversation ends with an assistant's message that an answer can continue.
bool ends_with_answer(const Json& messages) {
  const Json& last = messages.back();
  const auto calls = last.find("tool_calls");
  return last.at("role") == "assistant" && (calls == last.end() || calls->empty());
}

/// Where the answer begins: in a new message, in the last assistant's message, or, without a generation prompt, where the
/// template ends. By default an assistant's message at the end is continued.
void read_answer_place(Fields& fields, ChatRequest& request) {
  const auto generation_prompt = fields.boolean("add_generation_prompt");
  const auto continued = fields.boolean("continue_final_message");
  if (generation_prompt.value_or(false) && continued.value_or(false)) {
    fields.fail("continue_final_message", "and add_generation_prompt can't both be true");
  }
  if (continued.value_or(false) && !ends_with_answer(request.messages)) {
    fields.fail("continue_final_message", "needs an assistant's message without tool_calls at the end");
  }
  request.continue_final_message = continued.value_or(!generation_prompt.value_or(false));
  // The continued message follows the prompt for an answer.
  request.add_generation_prompt = generation_prompt.value_or(true) || continued.value_or(false);
}

/// The text of the last message, if the answer continues it.
std::string continued_text(const ChatRequest& request) {
  if (!request.add_generation_prompt || !request.continue_final_message || !ends_with_answer(request.messages)) {
    return "";
  }
  const Json& last = request.messages.back();
  const auto content = last.find("content");
  if (content == last.end() || content->is_null()) {
    return "";
  }
  if (content->is_string()) {
    return content->get<std::string>();
  }
  std::string text;
  for (const Json& part : *content) {
    text += part.at("text").get_ref<const std::string&>();
  }
  return text;
}

}  // namespace

ChatCall read_chat(Fields& fields, const ServedModel& model, Reading& reading, bool hide_tools) {
  // The conversation as sent, as adapted for the template, as the template gets it, and the rendered prompt.
  constexpr std::int64_t copies = 4;
  reading.hold(copies * reading.held());
  ChatCall call;
  call.request.budget = &reading.budget;
  call.request.messages = read_messages(fields);
  call.request.tools = read_tools(fields, call.relaxed);
  if (hide_tools) {
    call.request.tools = nullptr;
  }
  call.request.arguments = read_arguments(fields, model);
  read_answer_place(fields, call.request);
  fields.ignore({"add_special_tokens"});  // the prompt has one BOS in either case
  static_cast<void>(model.text());
  if (model.templates == nullptr) {
    throw ApiError(501, "the model has no chat template; --chat-template-file gives it one");
  }
  call.chat_template = &model.templates->choose(call.request);
  try {
    call.prompt = call.chat_template->prompt(call.request);
  } catch (const Error& error) {
    throw ApiError(400, fmt::format("the chat template refuses the conversation: {}", error.what()), "messages");
  }
  call.continued = continued_text(call.request);
  return call;
}

void serve_apply_template(const std::shared_ptr<Exchange>& exchange, const Backend& backend) {
  const Document document = exchange->take_json();
  const Json& body = document.root;
  Fields fields(body);
  const ChatCall call = read_chat(fields, backend.model, exchange->reading);
  finish_fields(fields, *exchange, backend);
  std::string text = text_of(call.prompt.segments);
  exchange->reading.keep(2 * static_cast<std::int64_t>(text.size()));
  exchange->send_pieces(with_member({{"prompt", nullptr}}, "prompt", string_in_pieces(std::move(text))));
}

}  // namespace rocmforge
