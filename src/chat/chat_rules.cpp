#include "chat/chat_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include "base/json_document.h"
#include "chat/message_json.h"

namespace rocmforge {
namespace {

using nlohmann::ordered_json;

bool is_instruction(const ordered_json& message) { return is_role(message, "system") || is_role(message, "developer"); }
bool has_calls(const ordered_json& message) {
  const auto calls = message.find("tool_calls");
  return calls != message.end() && calls->is_array() && !calls->empty();
}

ordered_json parts_of(const ordered_json& content) {
  return content.is_array() ? content : ordered_json::array({text_part(content.is_string() ? content : ordered_json(""))});
}

/// Appends the content of a message behind an empty line.
void append_content(ordered_json& message, const ordered_json& content) {
  ordered_json& whole = message["content"];
  if (content.is_null() || content == "" || (content.is_array() && content.empty())) {
    return;
  }
  if (whole.is_null() || whole == "") {
    whole = content;
  } else if (whole.is_string() && content.is_string()) {
    whole = whole.get<std::string>() + "\n\n" + content.get<std::string>();
  } else {
    whole = parts_of(whole);
    for (const ordered_json& part : parts_of(content)) {
      whole.push_back(part);
    }
  }
}

/// Adds a message of the same role: its content, calls and reasoning.
void append_message(ordered_json& message, const ordered_json& next) {
  append_content(message, next.contains("content") ? next["content"] : ordered_json());
  if (has_calls(next)) {
    for (const ordered_json& call : next["tool_calls"]) {
      message["tool_calls"].push_back(call);
    }
  }
  for (const char* name : {"reasoning_content", "thinking"}) {
    if (const std::string text = string_of(next, name); !text.empty()) {
      const std::string before = string_of(message, name);
      message[name] = before.empty() ? text : before + "\n\n" + text;
    }
  }
}

void neutral_tools(ChatRequest& request, const ChatAbilities&) {
  for (ordered_json& tool : request.tools) {
    ordered_json& function = tool.contains("function") ? tool["function"] : tool;
    if (!function.contains("description") || !function["description"].is_string()) {
      function["description"] = "";
    }
    if (!function.contains("parameters") || !function["parameters"].is_object()) {
      function["parameters"] = {{"type", "object"}, {"properties", ordered_json::object()}};
    }
    ordered_json& parameters = function["parameters"];
    if (!parameters.contains("properties")) {
      parameters["properties"] = ordered_json::object();
    }
  }
}

/// A list of types becomes the first that is not null, in all levels of the schemas.
void single_types(ChatRequest& request, const ChatAbilities&) {
  std::vector<ordered_json*> todo;
  for (ordered_json& tool : request.tools) {
    todo.push_back(&tool);
  }
  while (!todo.empty()) {
    ordered_json& each = *todo.back();
    todo.pop_back();
    const auto type = each.is_object() ? each.find("type") : each.end();
    if (each.is_object() && type != each.end() && type->is_array() && !type->empty()) {
      const auto first = std::ranges::find_if(*type, [](const ordered_json& one) { return one != "null"; });
      *type = ordered_json(first == type->end() ? type->front() : *first);
    }
    if (each.is_structured()) {
      for (ordered_json& inner : each) {
        todo.push_back(&inner);
      }
    }
  }
}

void developer_is_system(ChatRequest& request, const ChatAbilities&) {
  for (ordered_json& each : request.messages) {
    if (is_role(each, "developer")) {
      each["role"] = "system";
    }
  }
}

/// The instructions at the beginning become one message.
void one_instruction(ChatRequest& request, const ChatAbilities&) {
  ordered_json messages = ordered_json::array();
  bool at_start = true;
  for (ordered_json& each : request.messages) {
    at_start = at_start && is_instruction(each);
    if (at_start && !messages.empty()) {
      append_message(messages[0], each);
    } else {
      messages.push_back(std::move(each));
    }
  }
  request.messages = std::move(messages);
}

/// Later ones become messages of the user, so that what came before them stays as it was.
void instructions_first(ChatRequest& request, const ChatAbilities&) {
  bool at_start = true;
  for (ordered_json& each : request.messages) {
    at_start = at_start && is_instruction(each);
    if (!at_start && is_instruction(each)) {
      each["role"] = "user";
    }
  }
}

void needs_a_question(ChatRequest& request, const ChatAbilities&) {
  ordered_json& messages = request.messages;
  const bool has_question = std::ranges::any_of(messages, [](const ordered_json& each) { return !is_instruction(each); });
  if (!has_question && !messages.empty()) {
    messages.back()["role"] = "user";
  }
}

/// Nine letters and digits that are the same for the same id.
std::string short_id(const std::string& id) {
  constexpr std::string_view digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
  constexpr std::size_t length = 9;
  if (id.size() == length && std::ranges::all_of(id, [&](char c) { return digits.find(c) != std::string_view::npos; })) {
    return id;
  }
  std::uint64_t hash = 0xcbf29ce484222325u;  // FNV-1a
  for (const char c : id) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  }
  std::string made;
  while (made.size() < length) {
    made += digits[hash % digits.size()];
    hash /= digits.size();
  }
  return made;
}

/// For templates that take only ids of nine letters and digits (Mistral's).
void short_call_ids(ChatRequest& request, const ChatAbilities&) {
  for (ordered_json& each : request.messages) {
    if (has_calls(each)) {
      for (ordered_json& call : each["tool_calls"]) {
        if (const std::string id = string_of(call, "id"); !id.empty()) {
          call["id"] = short_id(id);
        }
      }
    }
    if (const std::string id = string_of(each, "tool_call_id"); !id.empty()) {
      each["tool_call_id"] = short_id(id);
    }
  }
}

/// Text beside calls becomes the end of the reasoning, for templates that take only one of the two there (gpt-oss).
void no_text_beside_thoughts(ChatRequest& request, const ChatAbilities&) {
  for (ordered_json& each : request.messages) {
    const std::string reasoning = string_of(each, "thinking");
    if (!has_calls(each) || reasoning.empty() || !each.contains("content") || each["content"].is_null() ||
        each["content"] == "") {
      continue;
    }
    ordered_json whole = {{"content", reasoning}};
    append_content(whole, each["content"]);
    if (whole["content"].is_string()) {  // parts that are no text stay
      each["thinking"] = each["reasoning_content"] = whole["content"];
      each["content"] = "";
    }
  }
}

/// Several calls of one message become several messages with a call and its result each.
void one_call(ChatRequest& request, const ChatAbilities& abilities) {
  ordered_json messages = ordered_json::array();
  ordered_json& given = request.messages;
  for (std::size_t i = 0; i < given.size(); ++i) {
    if (!has_calls(given[i]) || given[i]["tool_calls"].size() < 2) {
      messages.push_back(std::move(given[i]));
      continue;
    }
    std::size_t end = i + 1;
    while (end < given.size() && is_role(given[end], "tool")) {
      ++end;
    }
    const ordered_json calls = given[i]["tool_calls"];
    std::vector<bool> used(end - i - 1, false);
    for (std::size_t c = 0; c < calls.size(); ++c) {
      ordered_json one = c == 0 ? given[i] : plain_message("assistant", "");
      if (c > 0 && !abilities.calls_with_empty_content) {
        one["content"] = nullptr;
      }
      one["tool_calls"] = ordered_json::array({calls[c]});
      messages.push_back(std::move(one));
      const std::string id = string_of(calls[c], "id");
      for (std::size_t r = i + 1; r < end; ++r) {
        const bool is_its = id.empty() ? r - i - 1 == c : string_of(given[r], "tool_call_id") == id;
        if (is_its && !used[r - i - 1]) {
          used[r - i - 1] = true;
          messages.push_back(given[r]);
        }
      }
    }
    for (std::size_t r = i + 1; r < end; ++r) {
      if (!used[r - i - 1]) {
        messages.push_back(std::move(given[r]));
      }
    }
    i = end - 1;
  }
  given = std::move(messages);
}

/// The user's text behind results becomes part of the last one, and images there become part of the user's message before.
void no_text_behind_results(ChatRequest& request, const ChatAbilities&) {
  ordered_json messages = ordered_json::array();
  std::size_t asked = 0;  // the user's last message
  for (ordered_json& each : request.messages) {
    if (!is_role(each, "user") || messages.empty() || !is_role(messages.back(), "tool")) {
      asked = is_role(each, "user") ? messages.size() : asked;
      messages.push_back(std::move(each));
      continue;
    }
    if (each["content"].is_array() && is_role(messages[asked], "user")) {
      append_content(messages[asked], take_images(each));
    }
    append_content(messages.back(), each["content"]);
  }
  request.messages = std::move(messages);
}

/// Neighbours of one role become one message. A call before its result stays apart from text.
void roles_alternate(ChatRequest& request, const ChatAbilities&) {
  ordered_json messages = ordered_json::array();
  for (ordered_json& each : request.messages) {
    const bool joins = !messages.empty() && (is_role(each, "user") || is_role(each, "assistant")) &&
                       string_of(messages.back(), "role") == string_of(each, "role");
    if (joins) {
      append_message(messages.back(), each);
    } else {
      messages.push_back(std::move(each));
    }
  }
  request.messages = std::move(messages);
}

/// An answer of the model at the start, as a greeting, needs a question before it.
void question_first(ChatRequest& request, const ChatAbilities&) {
  ordered_json& messages = request.messages;
  const auto first = std::ranges::find_if(messages, [](const ordered_json& each) { return !is_instruction(each); });
  if (first != messages.end() && is_role(*first, "assistant")) {
    messages.insert(first, plain_message("user", "[the conversation begins]"));
  }
}

ChatRequest asking(std::initializer_list<ordered_json> messages, ordered_json tools = nullptr) {
  ChatRequest request;
  request.messages = std::vector<ordered_json>(messages);
  request.tools = std::move(tools);
  return request;
}
ordered_json question() { return ProbeMessages::message("user", "probe question"); }

const std::array rules = {
    ChatRule{"neutral_tools",
             [](const ProbeMessages& make, const ChatAbilities& abilities) {
               return abilities.tools ? asking({question()}, make.tools({{"name", "probe_bare"}})) : asking({});
             },
             neutral_tools},
    ChatRule{"single_types",
             [](const ProbeMessages& make, const ChatAbilities& abilities) {
               const ordered_json key = {{"type", {"string", "null"}}, {"description", "probe"}};
               const ordered_json parameters = {{"type", "object"}, {"properties", {{"probe_key", key}}}};
               return abilities.tools
                          ? asking(
                                {question()},
                                make.tools({{"name", "probe_types"}, {"description", "probe"}, {"parameters", parameters}}))
                          : asking({});
             },
             single_types},
    ChatRule{"developer_is_system",
             [](const ProbeMessages& make, const ChatAbilities& abilities) {
               return abilities.developer_role && abilities.system_role
                          ? asking({make.message("system", "probe one"), make.message("developer", "probe two"), question()})
                          : asking({});
             },
             developer_is_system},
    ChatRule{"one_instruction",
             [](const ProbeMessages& make, const ChatAbilities& abilities) {
               return abilities.system_role
                          ? asking({make.message("system", "probe one"), make.message("system", "probe two"), question()})
                          : asking({});
             },
             one_instruction},
    ChatRule{"instructions_first",
             [](const ProbeMessages& make, const ChatAbilities& abilities) {
               return abilities.system_role
                          ? asking({make.message("user", "probe one"), make.message("assistant", "probe two"),
                                    make.message("system", "probe three"), question()})
                          : asking({});
             },
             instructions_first},
    ChatRule{"needs_a_question",
             [](const ProbeMessages& make, const ChatAbilities& abilities) {
               return abilities.system_role ? asking({make.message("system", "probe one")}) : asking({});
             },
             needs_a_question},
    ChatRule{"short_call_ids",
             [](const ProbeMessages& make, const ChatAbilities& abilities) {
               if (!abilities.tool_calls || !abilities.tool_results) {
                 return asking({});
               }
               ordered_json called = make.calls({"probe first"});
               ordered_json result = make.result(0, "probe second");
               called["tool_calls"][0]["id"] = result["tool_call_id"] = "call_of_a_long_name_1";
               return asking({question(), std::move(called), std::move(result)}, make.usual_tools());
             },
             short_call_ids},
    ChatRule{"no_text_beside_thoughts",
             [](const ProbeMessages& make, const ChatAbilities& abilities) {
               if (!abilities.tool_calls || !abilities.tool_results) {
                 return asking({});
               }
               ordered_json called = make.calls({"probe first"});
               called["content"] = "probe second";
               called["thinking"] = called["reasoning_content"] = "probe third";
               return asking({question(), std::move(called), make.result(0, "probe fourth")}, make.usual_tools());
             },
             no_text_beside_thoughts},
    ChatRule{"one_call",
             [](const ProbeMessages& make, const ChatAbilities& abilities) {
               return abilities.tool_calls && abilities.tool_results
                          ? asking({question(), make.calls({"probe first", "probe second"}), make.result(0, "probe third"),
                                    make.result(1, "probe fourth")},
                                   make.usual_tools())
                          : asking({});
             },
             one_call},
    ChatRule{"no_text_behind_results",
             [](const ProbeMessages& make, const ChatAbilities& abilities) {
               return abilities.tool_calls && abilities.tool_results
                          ? asking({question(), make.calls({"probe first"}), make.result(0, "probe third"),
                                    make.message("user", "probe fourth")},
                                   make.usual_tools())
                          : asking({});
             },
             no_text_behind_results},
    ChatRule{"roles_alternate",
             [](const ProbeMessages& make, const ChatAbilities&) {
               return asking({make.message("user", "probe one"), make.message("user", "probe two"),
                              make.message("assistant", "probe three"), make.message("assistant", "probe four"),
                              question()});
             },
             roles_alternate},
    ChatRule{"question_first",
             [](const ProbeMessages& make, const ChatAbilities&) {
               return asking({make.message("assistant", "probe one"), question()});
             },
             question_first},
};

}  // namespace

ordered_json ProbeMessages::message(std::string_view role, std::string_view text) { return plain_message(role, text); }

ordered_json ProbeMessages::calls(std::initializer_list<std::string_view> values) const {
  ordered_json made = plain_message("assistant", "");
  if (!abilities_->calls_with_empty_content) {
    made["content"] = nullptr;
  }
  int number = 0;
  for (const std::string_view value : values) {
    const ordered_json object = {{"probe_argument", value}};
    const ordered_json function = {{"name", "probe_tool"},
                                   {"arguments", abilities_->arguments_as_text ? ordered_json(json_text(object)) : object}};
    made["tool_calls"].push_back(
        {{"id", fmt::format("abcdef12{}", number++)}, {"type", "function"}, {"function", function}});
  }
  return made;
}

ordered_json ProbeMessages::result(int number, std::string_view text) {
  ordered_json made = plain_message("tool", text);
  made["tool_call_id"] = fmt::format("abcdef12{}", number);
  made["name"] = "probe_tool";
  return made;
}

ordered_json ProbeMessages::tools(ordered_json function) {
  return ordered_json::array({wrapped_function(std::move(function))});
}

ordered_json ProbeMessages::usual_tools() {
  const ordered_json key = {{"type", "string"}, {"description", "a key"}};
  return tools({{"name", "probe_tool"},
                {"description", "a tool"},
                {"parameters", {{"type", "object"}, {"properties", {{"key", key}}}, {"required", {"key"}}}}});
}

std::span<const ChatRule> chat_rules() { return rules; }

void adapt_to_rules(ChatRequest& request, const ChatAbilities& abilities, std::size_t first) {
  for (std::size_t i = first; i < rules.size(); ++i) {
    if ((abilities.rules >> i & 1u) != 0) {
      rules[i].adapt(request, abilities);
    }
  }
}

ordered_json take_images(ordered_json& message) {
  ordered_json images = ordered_json::array();
  ordered_json others = ordered_json::array();
  for (ordered_json& part : message["content"]) {
    (is_image_part(part) ? images : others).push_back(std::move(part));
  }
  message["content"] = std::move(others);
  return images;
}

void texts_to_parts(ordered_json& messages) {
  for (ordered_json& each : messages) {
    if (each["content"].is_string()) {
      each["content"] = ordered_json::array({text_part(each["content"])});
    }
  }
}

}  // namespace rocmforge
