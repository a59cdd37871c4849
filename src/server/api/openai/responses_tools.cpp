#include "server/api/openai/responses_tools.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <optional>
#include <utility>

#include "chat/message_json.h"
#include "server/api/api_error.h"
#include "server/api/client_tools.h"
#include "server/api/conversation_fields.h"

namespace rocmforge {
namespace {

constexpr std::array action_tools = {
    ActionTool{"local_shell", "action"},    ActionTool{"shell", "action"},           ActionTool{"apply_patch", "operation"},
    ActionTool{"tool_search", "arguments"}, ActionTool{"computer", "action", false},
};

/// A function of the item's members, by the name that it gets.
using Named = std::function<Tool(const std::string& name)>;

Named as_function(Json members) {
  return [members = std::move(members)](const std::string& name) mutable {
    Json function = {{"name", name}};
    function.update(members);
    return Tool{.name = name, .declaration = wrapped_function(std::move(function))};
  };
}

Named described_function(Fields& tool) {
  static_cast<void>(tool.object("parameters"));
  Json members = Json::object();
  for (const char* name : {"description", "parameters", "strict"}) {
    if (const Json* value = tool.find(name)) {
      members[name] = *value;
    }
  }
  return as_function(std::move(members));
}

Named described_text_tool(Fields& tool) {
  TextSyntax syntax;
  const Json* format = tool.object("format");
  if (format != nullptr && string_of(*format, "type") == "grammar") {
    syntax = {.kind = string_of(*format, "syntax"), .definition = string_of(*format, "definition")};
  }
  return [syntax = std::move(syntax), description = tool.text("description").value_or("")](const std::string& name) {
    return text_tool(name, description, syntax);
  };
}

/// Null for tools that run on the vendor's server.
Named described_action(Fields& tool, const std::string& type) {
  if (type == "tool_search" && tool.text("execution") == "client") {
    Json members = Json::object();
    for (const char* name : {"description", "parameters"}) {
      if (const Json* value = tool.find(name)) {
        members[name] = *value;
      }
    }
    return as_function(std::move(members));
  }
  const ActionTool* action = action_tool(type);
  std::optional<Json> function = action == nullptr || !action->is_offered ? std::nullopt : function_of_client_tool(type, "");
  if (!function) {
    return nullptr;
  }
  function->erase("name");
  return as_function(*std::move(function));
}

}  // namespace

const ActionTool* action_tool(std::string_view name) {
  const auto* found = std::ranges::find(action_tools, name, &ActionTool::name);
  return found == action_tools.end() ? nullptr : found;
}

const ActionTool* action_of_call(std::string_view type) {
  constexpr std::string_view end = "_call";
  return type.ends_with(end) ? action_tool(type.substr(0, type.size() - end.size())) : nullptr;
}

void OfferedTools::offer(OfferedTool tool, const Named& named) {
  std::string& known = model_names_[{tool.in_namespace, tool.name}];
  if (!known.empty()) {
    return;  // a tool that a search found again
  }
  std::string name = tool.name;
  if (by_model_name_.contains(name) && !tool.in_namespace.empty()) {
    name = tool.in_namespace + (tool.in_namespace.ends_with("__") ? "" : "__") + tool.name;
  }
  known = name;
  tools_.push_back(named(name));
  by_model_name_.emplace(std::move(name), std::move(tool));
  if (tools_.size() > most_tools) {
    throw ApiError(400, fmt::format("tools holds more than {} tools with those of namespaces and searches", most_tools),
                   "tools");
  }
}

void OfferedTools::add_namespace(Fields& tool) {
  const std::string in_namespace = tool.needed_text("name");
  tool.each("tools", tool.array("tools"), [&](Fields& each) {
    const std::string type = each.text("type").value_or("function");
    if (type == "custom") {
      offer({.item = CallItem::text, .name = needed_tool_name(each), .in_namespace = in_namespace},
            described_text_tool(each));
    } else if (type == "function") {
      offer({.name = needed_tool_name(each), .in_namespace = in_namespace}, described_function(each));
    } else {
      each.note(type);
    }
  });
}

void OfferedTools::add(Fields& tool) {
  const std::string type = tool.needed_text("type");
  if (type == "namespace") {
    return add_namespace(tool);
  }
  if (type == "function") {
    return offer({.name = needed_tool_name(tool)}, described_function(tool));
  }
  if (type == "custom") {
    return offer({.item = CallItem::text, .name = needed_tool_name(tool)}, described_text_tool(tool));
  }
  const Named action = described_action(tool, type);
  if (action == nullptr) {
    return tool.note(type);
  }
  offer({.item = CallItem::action,
         .name = type,
         .call_type = type + "_call",
         .member = std::string(action_tool(type)->member)},
        action);
}

void OfferedTools::add_all(Fields& fields, std::string_view name) {
  fields.each(name, find_tools(fields, name), [this](Fields& tool) { add(tool); });
}

std::string OfferedTools::model_name(std::string_view name, std::string_view in_namespace) const {
  const auto found = model_names_.find({std::string(in_namespace), std::string(name)});
  return found == model_names_.end() ? std::string(name) : found->second;
}

OfferedTool OfferedTools::find(const std::string& model_name) const {
  const auto found = by_model_name_.find(model_name);
  return found == by_model_name_.end() ? OfferedTool{.name = model_name} : found->second;
}

Json OfferedTools::item(const std::string& model_name, std::string_view call_id, const std::string& arguments) const {
  const OfferedTool tool = find(model_name);
  if (tool.item == CallItem::action) {
    JsonDocument document = read_json(arguments);
    Json action = document.problem.empty() && document.value.is_object() ? std::move(document.value) : Json::object();
    Json item = {{"type", tool.call_type}, {"call_id", call_id}};
    if (tool.name == "local_shell") {
      action["type"] = "exec";
      if (!action.contains("env")) {
        action["env"] = Json::object();
      }
    } else if (tool.name == "tool_search") {
      item["execution"] = "client";
    }
    item[tool.member] = std::move(action);
    return item;
  }
  Json item = {{"type", tool.item == CallItem::text ? "custom_tool_call" : "function_call"},
               {"call_id", call_id},
               {"name", tool.name}};
  if (!tool.in_namespace.empty()) {
    item["namespace"] = tool.in_namespace;
  }
  if (tool.item == CallItem::text) {
    item["input"] = input_of_text_tool(arguments);
  } else {
    item["arguments"] = arguments;
  }
  return item;
}

}  // namespace rocmforge
