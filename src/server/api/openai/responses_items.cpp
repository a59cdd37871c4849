#include "server/api/openai/responses_items.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "server/api/content_parts.h"

namespace rocmforge {
namespace {

/// Items that only tell the vendor's server or the client something.
bool is_instruction(std::string_view type) {
  constexpr std::array<std::string_view, 4> types = {"mcp_list_tools", "ghost_snapshot", "compaction_trigger",
                                                     "additional_tools"};
  return std::ranges::find(types, type) != types.end();
}

std::string call_id_of(Fields& item) {
  const auto id = item.text("call_id");
  return (!id || id->empty()) && item.has("id") ? item.needed_text("id") : item.needed_text("call_id");
}

}  // namespace

bool ItemConversation::answer_goes_on() const { return !messages_.empty() && messages_.back().role == Role::assistant; }

void ItemConversation::add_message(Fields& item) {
  const std::string role = item.needed_choice("role", {"system", "developer", "user", "assistant"});
  Content content = shown_content(item, "content");
  if (role == "assistant" && answer_goes_on() && messages_.back().content == Content("") && messages_.back().calls.empty()) {
    messages_.back().content = std::move(content);
  } else {
    messages_.push_back({.role = *role_of(role), .content = std::move(content)});
  }
}

/// The reasoning itself if the client has it, else its summary.
void ItemConversation::add_reasoning(Fields& item) {
  for (const char* name : {"content", "summary"}) {
    const Json* parts = item.array(name);
    if (parts != nullptr && !parts->empty()) {
      messages_.push_back({.role = Role::assistant, .content = "", .reasoning = shown_texts(item, name, "")});
      return;
    }
  }
}

void ItemConversation::add_call(std::string id, std::string name, std::string arguments) {
  if (!answer_goes_on()) {
    messages_.push_back(text_message(Role::assistant, ""));
  }
  messages_.back().calls.push_back({.id = std::move(id), .name = std::move(name), .arguments = std::move(arguments)});
}

/// A call that the client ran, whose arguments are an object.
void ItemConversation::add_action_call(Fields& item, const ActionTool& tool) {
  const Json* given = item.find(tool.member);
  Json arguments = given != nullptr && given->is_object() ? *given : Json::object();
  if (tool.name != "apply_patch" && tool.name != "tool_search") {
    arguments.erase("type");
  }
  add_call(call_id_of(item), std::string(tool.name), to_text(arguments));
}

/// A text, parts, or what can be read of the item.
void ItemConversation::add_result(Fields& item, const std::string& type) {
  Message result{.role = Role::tool, .call_id = call_id_of(item)};
  const Json* output = item.find("output");
  const bool is_parts = output != nullptr && output->is_array() && std::ranges::all_of(*output, [](const Json& part) {
                          return part.is_object() && part.contains("type");
                        });
  if (output == nullptr && (type == "function_call_output" || type == "custom_tool_call_output")) {
    item.fail("output", "is missing");
  }
  if (output != nullptr && (output->is_string() || is_parts)) {
    result.content = shown_content(item, "output");
  } else if (output != nullptr && output->is_object() && output->contains("type")) {  // a screenshot
    Fields part = item.inner(*output, item.full_name("output."));
    result.content = content_of({shown_part(part)});
  } else {
    result.content = shown_record(type, output == nullptr ? item.json() : *output);
  }
  messages_.push_back(std::move(result));
}

void ItemConversation::add_shown(Role role, Part part) {
  messages_.push_back({.role = role, .content = content_of({std::move(part)})});
}

void ItemConversation::add(Fields& item) {
  const std::string type = item.text("type").value_or("message");
  if (type == "message" || type == "agent_message") {
    return add_message(item);
  }
  if (type == "reasoning") {
    return add_reasoning(item);
  }
  if (type == "function_call") {
    const std::string name = tools_.model_name(item.needed_text("name"), item.text("namespace").value_or(""));
    const std::string arguments = item.needed_text("arguments");
    return add_call(item.needed_text("call_id"), name, arguments);
  }
  if (type == "custom_tool_call") {
    const std::string name = tools_.model_name(item.needed_text("name"), item.text("namespace").value_or(""));
    return add_call(item.needed_text("call_id"), name, to_text({{"input", item.needed_text("input")}}));
  }
  // A search that the vendor's server made has no call_id.
  const bool is_clients = type != "tool_search_call" || item.has("call_id");
  if (const ActionTool* tool = action_of_call(type); tool != nullptr && is_clients) {
    return add_action_call(item, *tool);
  }
  if (type.ends_with("_output") && (item.has("call_id") || type == "local_shell_call_output" || !item.has("id"))) {
    return add_result(item, type);
  }
  item.note(type);
  if (is_instruction(type)) {
    return;
  }
  if (type == "item_reference") {
    return add_shown(Role::assistant, TextPart{"[an earlier item of this conversation, which is not kept here]"});
  }
  if (item.has("encrypted_content")) {
    return add_shown(Role::user,
                     TextPart{"[earlier turns of this conversation, in an encrypted form that this model can't read]"});
  }
  const bool is_record = type.ends_with("_call") || type.ends_with("_output") || type.starts_with("mcp_");
  is_record ? add_shown(Role::assistant, TextPart{shown_record(type, item.json())})
            : add_shown(Role::user, shown_part(item));
}

}  // namespace rocmforge
