#include "chat/chat_adaptation.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"

namespace rocmforge {
namespace {

using nlohmann::ordered_json;

bool has(const std::optional<std::string>& text, std::string_view part) {
  return text.has_value() && text->find(part) != std::string::npos;
}

ordered_json message(std::string_view role, ordered_json content) {
  return {{"role", role}, {"content", std::move(content)}};
}

ordered_json text_part(ordered_json text) { return {{"type", "text"}, {"text", std::move(text)}}; }

bool is_role(const ordered_json& message, std::string_view role) {
  const auto found = message.find("role");
  return found != message.end() && found->is_string() && found->get_ref<const std::string&>() == role;
}

/// The text of a key, "" where there is none.
std::string string_of(const ordered_json& object, std::string_view key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

std::string compact(const ordered_json& json) { return json.dump(-1, ' ', false, ordered_json::error_handler_t::replace); }

const ordered_json& function_of(const ordered_json& wrapped) {
  const auto found = wrapped.find("function");
  return found != wrapped.end() ? *found : wrapped;
}

/// A tool or a call: a function with a name, wrapped or bare.
void check_function(const ordered_json& wrapped, const std::string& what) {
  if (!wrapped.is_object() || !function_of(wrapped).is_object() || string_of(function_of(wrapped), "name").empty()) {
    throw Error(what + ": a function with a name is needed");
  }
}

/// A message's content as one text. Throws Error for parts that are no text.
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
    const auto type = part.is_object() ? part.find("type") : part.end();
    const auto held = part.is_object() ? part.find("text") : part.end();
    const bool is_text =
        part.is_object() && type != part.end() && *type == "text" && held != part.end() && held->is_string();
    if (!is_text) {
      throw Error(fmt::format("messages[{}].content: only parts of type 'text' are supported", index));
    }
    text += text.empty() ? "" : "\n";
    text += held->get_ref<const std::string&>();
  }
  return text;
}

/// Checks calls; their arguments become objects or texts, whichever the template takes.
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
      arguments = compact(arguments);
    } else if (!as_text && arguments.is_string()) {
      const auto& text = arguments.get_ref<const std::string&>();
      ordered_json parsed = ordered_json::parse(text.empty() ? "{}" : text, nullptr, false);
      if (parsed.is_object()) {
        arguments = std::move(parsed);
      }
    }
  }
}

/// Reasoning under both names that templates use.
void name_reasoning(ordered_json& message) {
  for (const std::string_view name : {"reasoning_content", "thinking", "reasoning"}) {
    const auto found = message.find(name);
    if (found != message.end() && found->is_string()) {
      const std::string reasoning = found->get<std::string>();
      message["thinking"] = reasoning;
      message["reasoning_content"] = reasoning;
      return;
    }
  }
}

/// An assistant's calls as part of its text. `names` gets the function's name for each call's id.
void write_calls(ordered_json& message, ordered_json& names) {
  ordered_json calls = ordered_json::array();
  for (const ordered_json& call : message["tool_calls"]) {
    const ordered_json& function = function_of(call);
    calls.push_back({{"name", function["name"]}, {"arguments", function["arguments"]}});
    names[string_of(call, "id")] = function["name"];
  }
  std::string text = message["content"].get<std::string>();
  text += text.empty() ? "" : "\n";
  message["content"] = text + compact({{"tool_calls", calls}});
  message.erase("tool_calls");
}

/// Tools, calls and results as plain messages.
void describe_tools(ChatRequest& request) {
  ordered_json names = ordered_json::object();
  for (ordered_json& each : request.messages) {
    if (is_role(each, "assistant") && each.contains("tool_calls")) {
      write_calls(each, names);
    } else if (is_role(each, "tool")) {
      const std::string own = string_of(each, "name");
      const std::string name = own.empty() ? string_of(names, string_of(each, "tool_call_id")) : own;
      each = message("user", compact({{"tool_result", {{"name", name}, {"content", each["content"]}}}}));
    }
  }
  if (!request.tools.is_array()) {
    return;
  }
  std::string text = "You can call these functions:";
  for (const ordered_json& tool : request.tools) {
    text += '\n';
    text += compact(function_of(tool));
  }
  text +=
      "\n\nTo call some of them, answer with nothing but a JSON object of this form: "
      R"({"tool_calls": [{"name": "NAME", "arguments": {...}}]})"
      "\nTheir results come in the next message. To answer without a call, write plain text.";
  if (!request.messages.empty() && is_role(request.messages[0], "system")) {
    request.messages[0]["content"] = request.messages[0]["content"].get<std::string>() + "\n\n" + text;
  } else {
    request.messages.insert(request.messages.begin(), message("system", text));
  }
  request.tools = nullptr;
}

/// The texts of system messages before the question that follows.
void merge_system(ordered_json& messages) {
  ordered_json merged = ordered_json::array();
  std::string pending;
  for (ordered_json& each : messages) {
    if (is_role(each, "system")) {
      pending += (pending.empty() ? "" : "\n\n") + each["content"].get<std::string>();
      continue;
    }
    if (!pending.empty() && is_role(each, "user")) {
      const std::string text = each["content"].get<std::string>();
      each["content"] = pending + (text.empty() ? "" : "\n\n") + text;
      pending.clear();
    }
    merged.push_back(std::move(each));
  }
  if (!pending.empty()) {
    merged.push_back(message("user", pending));
  }
  messages = std::move(merged);
}

ChatRequest probe_request(ordered_json messages, ordered_json tools = nullptr) {
  ChatRequest request;
  request.messages = std::move(messages);
  request.tools = std::move(tools);
  request.clock = [] {
    std::tm any_day{};
    any_day.tm_mday = 1;
    return any_day;
  };
  return request;
}

}  // namespace

ChatAbilities probe_abilities(std::string_view source, const ChatProbe& render) {
  ChatAbilities abilities;
  const ordered_json tool = {{"type", "function"},
                             {"function",
                              {{"name", "probe_tool"},
                               {"description", "probe"},
                               {"parameters",
                                {{"type", "object"},
                                 {"properties", {{"probe_key", {{"type", "string"}, {"description", "probe"}}}}},
                                 {"required", {"probe_key"}}}}}}};
  const ordered_json tools = ordered_json::array({tool});
  // Some templates take conversations with tools only.
  const auto shows = [&](const ordered_json& messages, std::string_view text) {
    return has(render(probe_request(messages)), text) || has(render(probe_request(messages, tools)), text);
  };
  const auto question = [](ordered_json content) { return ordered_json::array({message("user", std::move(content))}); };
  abilities.text_content = shows(question("probe question"), "probe question") ||
                           !shows(question({text_part("probe question")}), "probe question");
  const auto content = [&](std::string_view text) {
    return abilities.text_content ? ordered_json(text) : ordered_json({text_part(text)});
  };
  const ordered_json asks = message("user", content("probe question"));
  abilities.system_role = shows({message("system", content("probe system")), asks}, "probe system");
  abilities.developer_role = source.find("developer") != std::string_view::npos;
  abilities.tools = has(render(probe_request({asks}, tools)), "probe_tool");

  const auto call = [&](ordered_json arguments) {
    ordered_json calls = message("assistant", content(""));
    const ordered_json function = {{"name", "probe_tool"}, {"arguments", std::move(arguments)}};
    calls["tool_calls"] = ordered_json::array({{{"id", "abcdef123"}, {"type", "function"}, {"function", function}}});
    return calls;
  };
  ordered_json result = message("tool", content("probe result"));
  result["tool_call_id"] = "abcdef123";
  result["name"] = "probe_tool";
  const auto as_object = render(probe_request({asks, call({{"probe_key", "probe value"}}), result}, tools));
  const auto as_text = render(probe_request({asks, call(R"({"probe_key": "probe value"})"), result}, tools));
  const bool takes_object = has(as_object, "probe value") && !has(as_object, "{'probe_key'");
  abilities.arguments_as_text = !takes_object && has(as_text, "probe value");
  abilities.tool_calls = takes_object || abilities.arguments_as_text;
  abilities.tool_results = has(takes_object ? as_object : as_text, "probe result");
  return abilities;
}

void adapt(ChatRequest& request, const ChatAbilities& abilities) {
  if (!request.messages.is_array()) {
    throw Error("messages: an array is needed");
  }
  if (!request.tools.is_null() && !request.tools.is_array()) {
    throw Error("tools: an array is needed");
  }
  if (request.tools.is_array() && request.tools.empty()) {
    request.tools = nullptr;
  }
  for (const ordered_json& tool : request.tools) {
    check_function(tool, "tools");
  }
  bool uses_tools = request.tools.is_array();
  const bool shows_tools = abilities.takes_tools();
  for (std::size_t i = 0; i < request.messages.size(); ++i) {
    ordered_json& each = request.messages[i];
    if (!each.is_object() || !each.contains("role") || !each["role"].is_string()) {
      throw Error(fmt::format("messages[{}]: an object with a 'role' is needed", i));
    }
    each["content"] = text_content(each, i);
    name_reasoning(each);
    adapt_calls(each, i, abilities.arguments_as_text && shows_tools);
    if (is_role(each, "developer") && !abilities.developer_role) {
      each["role"] = "system";
    }
    uses_tools = uses_tools || is_role(each, "tool") || each.contains("tool_calls");
  }
  if (uses_tools && !shows_tools) {
    describe_tools(request);
  }
  if (!abilities.system_role) {
    merge_system(request.messages);
  }
  if (!abilities.text_content) {
    for (ordered_json& each : request.messages) {
      each["content"] = ordered_json::array({text_part(each["content"])});
    }
  }
}

AnswerStart take_answer_start(ChatRequest& request) {
  AnswerStart start;
  ordered_json& messages = request.messages;
  if (!request.add_generation_prompt || !request.continue_final_message || messages.empty() ||
      !is_role(messages.back(), "assistant") || messages.back().contains("tool_calls")) {
    return start;
  }
  start.is_there = true;
  const ordered_json last = std::move(messages.back());
  messages.erase(messages.size() - 1);
  if (!messages.empty() && is_role(messages.back(), "assistant")) {
    throw Error("messages: an answer can go on from one assistant's message at the end, not from several");
  }
  start.content = text_content(last, messages.size());
  start.reasoning = string_of(last, "reasoning_content");
  return start;
}

void append_answer_start(const AnswerStart& start, ChatPrompt& prompt) {
  if (!start.is_there) {
    return;
  }
  const auto add = [&](std::string_view text, bool from_template) {
    if (!text.empty()) {
      prompt.segments.push_back({std::string(text), from_template});
    }
  };
  if (!start.reasoning.empty() && !prompt.reasoning_is_open) {
    add("<think>\n", true);
    prompt.reasoning_is_open = true;
  }
  add(start.reasoning, false);
  if (prompt.reasoning_is_open && !start.content.empty()) {
    add("\n</think>\n\n", true);
    prompt.reasoning_is_open = false;
  }
  add(start.content, false);
}

bool ends_inside_reasoning(std::string_view prompt) {
  const std::size_t end = prompt.find_last_not_of(" \t\r\n");
  return end != std::string_view::npos && prompt.substr(0, end + 1).ends_with("<think>");
}

}  // namespace rocmforge
