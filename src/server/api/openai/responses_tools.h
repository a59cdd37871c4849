#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "chat/conversation.h"
#include "server/api/fields.h"

namespace rocmforge {

/// A tool that the client runs and whose calls are items of their own, "local_shell_call": their member with the arguments.
struct ActionTool {
  std::string_view name{}, member{};
  bool is_offered = true;  ///< by this name in the list of tools
};
/// Null for another name.
const ActionTool* action_tool(std::string_view name);
/// By the type of the calls.
const ActionTool* action_of_call(std::string_view type);

/// How calls of a tool of the Responses API look in its items.
enum class CallItem {
  function,  ///< {"type": "function_call", "name", "arguments"}
  text,      ///< {"type": "custom_tool_call", "name", "input"}
  action,    ///< {"type": "local_shell_call", "action": {...}}, and the like of other tools that the client runs
};

/// A tool of a request, as the model sees it: a function.
struct OfferedTool {
  CallItem item = CallItem::function;
  std::string name{};          ///< by which the client knows it
  std::string in_namespace{};  ///< "" for none
  std::string call_type{};     ///< of an action's item: "local_shell_call"
  std::string member{};        ///< of that item, with the arguments: "action"
};

/// The tools of a request, by the names under which the model sees them. A function of a namespace keeps its name if no
/// other tool has it; otherwise it gets the namespace's before it.
class OfferedTools {
 public:
  /// A tool that runs on the vendor's server is left out, and named among the unknown fields. Throws ApiError(400).
  void add(Fields& tool);
  /// Adds tools of `name`, if it is there, an array.
  void add_all(Fields& fields, std::string_view name);

  /// None if nothing is offered.
  std::optional<std::vector<Tool>> take() { return tools_.empty() ? std::nullopt : std::optional(std::move(tools_)); }
  /// The model's name for a client's one.
  [[nodiscard]] std::string model_name(std::string_view name, std::string_view in_namespace = {}) const;
  [[nodiscard]] bool offers(std::string_view model_name) const { return by_model_name_.contains(model_name); }
  /// A plain function for an unknown name.
  [[nodiscard]] OfferedTool find(const std::string& model_name) const;
  /// An item without its id and status for a call of it; its arguments are JSON text.
  [[nodiscard]] Json item(const std::string& model_name, std::string_view call_id, const std::string& arguments) const;

 private:
  /// `named` makes the tool of the name by which the model knows it.
  void offer(OfferedTool tool, const std::function<Tool(const std::string& name)>& named);
  void add_namespace(Fields& tool);

  std::map<std::string, OfferedTool, std::less<>> by_model_name_;
  std::map<std::pair<std::string, std::string>, std::string> model_names_;  ///< by namespace and name
  std::vector<Tool> tools_;
};

}  // namespace rocmforge
