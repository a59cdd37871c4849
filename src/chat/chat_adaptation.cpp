#include "chat/chat_adaptation.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/json_document.h"
#include "chat/chat_rules.h"
#include "chat/message_json.h"
#include "chat/tool_call_writer.h"

namespace rocmforge {
namespace {

using nlohmann::ordered_json;

/// Checks a tool or a call: a function with a name, wrapped or bare.
void check_function(const ordered_json& wrapped, const std::string& what) {
  if (!wrapped.is_object() || !function_of(wrapped).is_object() || string_of(function_of(wrapped), "name").empty()) {
    throw Error(what + ": a function with a name is needed");
  }
}

/// A message's content as one text, without its images and recordings. Throws Error for other parts.
std::string text_content(const ordered_json& message, std::size_t index) {
  const auto content = message.find("content");
  if (content == message.end() || content->is_null()) {
    return "";
  }
  if (content->is_string()) {
    return content->get<std::string>();
  }
  if (!content->is_array()) {
    throw Error(fmt::format("messages[{}].content: a text or an array of parts is needed", index));
  }
  std::string text;
  for (const ordered_json& part : *content) {
    if (is_media_part(part)) {
      continue;
    }
    const auto type = part.is_object() ? part.find("type") : part.end();
    const auto held = part.is_object() ? part.find("text") : part.end();
    const bool is_text =
        part.is_object() && type != part.end() && *type == "text" && held != part.end() && held->is_string();
    if (!is_text) {
      throw Error(fmt::format("messages[{}].content: only parts of types 'text' and 'image' are supported", index));
    }
    text += text.empty() ? "" : "\n";
    text += held->get_ref<const std::string&>();
  }
  return text;
}

/// Checks the calls of a message and converts their arguments to the form that the template takes: objects or texts.
void adapt_calls(ordered_json& message, std::size_t index, bool as_text) {
  const auto calls = message.find("tool_calls");
  if (calls == message.end()) {
    return;
  }
  if (calls->is_null() || (calls->is_array() && calls->empty())) {
    message.erase("tool_calls");
    return;
  }
  if (!calls->is_array()) {
    throw Error(fmt::format("messages[{}].tool_calls: an array is needed", index));
  }
  for (ordered_json& call : *calls) {
    check_function(call, fmt::format("messages[{}].tool_calls", index));
    ordered_json& function = call.contains("function") ? call["function"] : call;
    if (!function.contains("arguments")) {
      function["arguments"] = ordered_json::object();
    }
    ordered_json& arguments = function["arguments"];
    if (as_text && !arguments.is_string()) {
      arguments = json_text(arguments);
    } else if (!as_text && arguments.is_string()) {
      const auto& text = arguments.get_ref<const std::string&>();
      JsonDocument parsed = read_json(text.empty() ? "{}" : text);
      if (parsed.value.is_object()) {
        arguments = std::move(parsed.value);
      }
    }
  }
}

/// Gives reasoning both names that templates use, as transformers does.
void name_reasoning(ordered_json& message) {
  for (const std::string_view name : {"reasoning_content", "thinking", "reasoning"}) {
    const auto found = message.find(name);
    if (found != message.end() && found->is_string()) {
      const std::string reasoning = found->get<std::string>();
      if (!message.contains("thinking")) {
        message["thinking"] = reasoning;
      }
      message["reasoning_content"] = reasoning;
      return;
    }
  }
}

/// Makes the calls of an assistant part of its text. Adds the function's name to `names` under the id of each call.
void write_calls(ordered_json& message, ToolCallStyle style, ordered_json& names) {
  ordered_json calls = ordered_json::array();
  for (const ordered_json& call : message["tool_calls"]) {
    const ordered_json& function = function_of(call);
    calls.push_back({{"name", function["name"]}, {"arguments", function["arguments"]}});
    names[string_of(call, "id")] = function["name"];
  }
  std::string text = message["content"].get<std::string>();
  text += text.empty() ? "" : "\n";
  message["content"] = text + written_tool_calls(style, calls);
  message.erase("tool_calls");
}

/// The parts of a conversation with tools for which the template has no place.
struct Missing {
  bool tools = false;    ///< the list goes into the system text
  bool format = false;   ///< the system text also says how to write calls
  bool calls = false;    ///< calls become part of the text
  bool results = false;  ///< results become messages of the user
};

Missing missing_parts(const ChatAbilities& abilities) {
  Missing missing;
  missing.tools = !abilities.tools;
  missing.format = !abilities.takes_tools();
  missing.calls = (missing.format && abilities.call_style == ToolCallStyle::generic) || !abilities.tool_calls;
  missing.results = !abilities.tool_results;
  return missing;
}

/// How to write calls, for a model whose template does not say it.
std::string call_instructions(ToolCallStyle style) {
  if (style == ToolCallStyle::generic) {
    return "To call some of them, answer with nothing but a JSON object of this form: "
           R"({"tool_calls": [{"name": "NAME", "arguments": {...}}]})";
  }
  const ordered_json example = {{"name", "NAME"}, {"arguments", {{"ARGUMENT", "VALUE"}}}};
  return "To call some of them, end your answer with text of exactly this form: " +
         written_tool_calls(style, ordered_json::array({example}));
}

void describe_tools(ChatRequest& request, const Missing& missing, ToolCallStyle style) {
  std::string text = missing.tools ? "You can call these functions:" : "";
  if (missing.tools) {
    for (const ordered_json& tool : request.tools) {
      text += '\n';
      text += json_text(function_of(tool));
    }
    text += "\n\n";
    request.tools = nullptr;
  }
  text += call_instructions(style) + "\nTheir results come in the next message. To answer without a call, write plain text.";
  if (!missing.tools) {
    text.insert(0, "You can call functions. ");
  }
  if (!request.messages.empty() && is_role(request.messages[0], "system")) {
    request.messages[0]["content"] = request.messages[0]["content"].get<std::string>() + "\n\n" + text;
  } else {
    request.messages.insert(request.messages.begin(), plain_message("system", text));
  }
}

/// Replaces the parts for which the template has no place by plain messages.
void describe_missing(ChatRequest& request, const ChatAbilities& abilities, const Missing& missing) {
  ordered_json names = ordered_json::object();
  for (ordered_json& each : request.messages) {
    if (missing.calls && is_role(each, "assistant") && each.contains("tool_calls")) {
      write_calls(each, abilities.call_style, names);
    } else if (is_role(each, "tool")) {
      const std::string own = string_of(each, "name");
      const std::string name = own.empty() ? string_of(names, string_of(each, "tool_call_id")) : own;
      if (missing.results) {
        each = plain_message("user", json_text({{"tool_result", {{"name", name}, {"content", each["content"]}}}}));
      } else if (own.empty() && !name.empty()) {
        each["name"] = name;  // the calls have become text, where the template can't find the name
      }
    }
  }
  if (request.tools.is_array() && !request.tools.empty() && missing.format) {
    describe_tools(request, missing, abilities.call_style);
  }
}

/// Puts a text before a content, which is a text or parts.
void put_before(ordered_json& content, const std::string& text) {
  if (content.is_array()) {
    content.insert(content.begin(), text_part(text + "\n\n"));
    return;
  }
  const std::string held = content.get<std::string>();
  content = text + (held.empty() ? "" : "\n\n") + held;
}

/// Moves the texts of system messages to the start of the next message of the user. If there is none, they become a message
/// of the user.
void merge_system(ordered_json& messages) {
  ordered_json merged = ordered_json::array();
  std::string pending;
  for (ordered_json& each : messages) {
    if (is_role(each, "system")) {
      pending += (pending.empty() ? "" : "\n\n") + each["content"].get<std::string>();
      continue;
    }
    if (!pending.empty() && is_role(each, "user")) {
      put_before(each["content"], pending);
      pending.clear();
    }
    merged.push_back(std::move(each));
  }
  if (!pending.empty()) {
    merged.push_back(plain_message("user", pending));
  }
  messages = std::move(merged);
}

/// Sets the empty content of a message with calls to the kind, "" or null, with which the template shows calls.
void choose_empty_content(ordered_json& message, bool was_null, const ChatAbilities& abilities) {
  if (!message.contains("tool_calls") || message["content"] != "") {
    return;
  }
  const bool null_fits = abilities.calls_with_null_content && (was_null || !abilities.calls_with_empty_content);
  if (null_fits) {
    message["content"] = nullptr;
  }
}

using IsPart = bool (*)(const ordered_json& part);

bool holds(const ordered_json& message, IsPart is_part) {
  const auto content = message.find("content");
  return content != message.end() && content->is_array() && std::ranges::any_of(*content, is_part);
}
bool holds_images(const ordered_json& message) { return holds(message, is_image_part); }
bool holds_sounds(const ordered_json& message) { return holds(message, is_sound_part); }

/// Makes a text of each image or recording.
void write_media(ordered_json& messages, IsPart is_part, const std::string& mark) {
  for (ordered_json& message : messages) {
    if (holds(message, is_part)) {
      for (ordered_json& part : message["content"]) {
        part = is_part(part) ? text_part(mark) : part;
      }
    }
  }
}

/// Throws Error for recordings that the template has no place for.
void place_sounds(ordered_json& messages, bool shows_them, const std::string& mark) {
  for (std::size_t i = 0; i < messages.size(); ++i) {
    if (holds_sounds(messages[i]) && !is_role(messages[i], "user")) {
      throw Error(fmt::format("messages[{}].content: recordings may be in messages of the user", i));
    }
    if (holds_sounds(messages[i]) && !shows_them && mark.empty()) {
      throw Error("the chat template has no place for recordings");
    }
  }
  if (!shows_them) {
    write_media(messages, is_sound_part, mark);
  }
}

/// Moves the images of results into the user's next message, which is made where another role follows. Throws Error for
/// images that the template has no place for.
void place_images(ordered_json& messages, bool shows_in_user, bool shows_in_results, const std::string& mark) {
  if (std::ranges::none_of(messages, holds_images)) {
    return;
  }
  if (!shows_in_user && mark.empty()) {
    throw Error("the chat template has no place for images");
  }
  ordered_json placed = ordered_json::array();
  ordered_json pending = ordered_json::array();
  const auto put_pending = [&] {
    if (!pending.empty()) {
      placed.push_back(plain_message("user", std::exchange(pending, ordered_json::array())));
    }
  };
  for (std::size_t i = 0; i < messages.size(); ++i) {
    ordered_json& each = messages[i];
    const bool is_result = is_role(each, "tool");
    if (holds_images(each) && !is_result && !is_role(each, "user")) {
      throw Error(fmt::format("messages[{}].content: images may be in messages of the user and in results of tools", i));
    }
    if (is_result && !shows_in_results && holds_images(each)) {
      const ordered_json images = take_images(each);
      pending.insert(pending.end(), images.begin(), images.end());
    }
    if (is_role(each, "user") && !pending.empty()) {
      const std::string text = each["content"].is_string() ? each["content"].get<std::string>() : "";
      const ordered_json parts = each["content"].is_array() ? each["content"] : ordered_json::array({text_part(text)});
      pending.insert(pending.end(), parts.begin(), parts.end());
      each["content"] = std::exchange(pending, ordered_json::array());
    } else if (!is_result) {
      put_pending();
    }
    placed.push_back(std::move(each));
  }
  put_pending();
  messages = std::move(placed);
  if (!shows_in_user) {
    write_media(messages, is_image_part, mark);
  }
}

/// Whether a message keeps its content in parts: the template joins them itself, and nothing is added to the message.
bool keeps_parts(const ordered_json& message, const ChatAbilities& abilities, const Missing& missing, bool uses_tools) {
  const auto content = message.find("content");
  if (holds(message, is_media_part)) {
    return true;
  }
  if (content == message.end() || !content->is_array() || !abilities.takes_parts(string_of(message, "role"))) {
    return false;
  }
  const bool rewritten =
      uses_tools && ((missing.format && is_role(message, "system")) || (missing.calls && message.contains("tool_calls")) ||
                     (missing.results && is_role(message, "tool")));
  return !rewritten && (abilities.system_role || !(is_role(message, "system") || is_role(message, "user")));
}

void check_request(const ChatRequest& request) {
  if (!request.messages.is_array()) {
    throw Error("messages: an array is needed");
  }
  if (!request.tools.is_null() && !request.tools.is_array()) {
    throw Error("tools: an array is needed");
  }
  for (const ordered_json& tool : request.tools) {
    check_function(tool, "tools");
  }
  for (std::size_t i = 0; i < request.messages.size(); ++i) {
    const ordered_json& each = request.messages[i];
    if (!each.is_object() || !each.contains("role") || !each["role"].is_string()) {
      throw Error(fmt::format("messages[{}]: an object with a 'role' is needed", i));
    }
  }
}

bool holds_tools(const ChatRequest& request) {
  const auto has_calls = [](const ordered_json& message) {
    const auto calls = message.find("tool_calls");
    return calls != message.end() && !calls->empty();
  };
  return (request.tools.is_array() && !request.tools.empty()) ||
         std::ranges::any_of(request.messages,
                             [&](const ordered_json& each) { return is_role(each, "tool") || has_calls(each); });
}

}  // namespace

void adapt(ChatRequest& request, const ChatAbilities& abilities, const MediaTexts& marks) {
  check_request(request);
  const bool uses_tools = holds_tools(request);
  const Missing missing = missing_parts(abilities);
  place_images(request.messages, abilities.images.user, abilities.images.tool && !missing.results, marks.image);
  place_sounds(request.messages, abilities.sounds, marks.sound);
  for (std::size_t i = 0; i < request.messages.size(); ++i) {
    ordered_json& each = request.messages[i];
    if (is_role(each, "developer") && !abilities.developer_role) {
      each["role"] = "system";
    }
    const bool was_null = !each.contains("content") || each["content"].is_null();
    std::string text = text_content(each, i);
    if (!keeps_parts(each, abilities, missing, uses_tools)) {
      each["content"] = std::move(text);
    }
    name_reasoning(each);
    adapt_calls(each, i, abilities.arguments_as_text && !missing.calls);
    if (!missing.calls) {
      choose_empty_content(each, was_null, abilities);
    }
  }
  if (uses_tools) {
    describe_missing(request, abilities, missing);
  }
  if (!abilities.system_role) {
    merge_system(request.messages);
  }
  adapt_to_rules(request, abilities);
  if (!abilities.text_content) {
    texts_to_parts(request.messages);
  }
}

}  // namespace rocmforge
