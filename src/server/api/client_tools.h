#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "chat/conversation.h"
#include "server/api/json.h"

namespace rocmforge {

/// A tool that a vendor's API names by its type alone and that the client runs, as a function: {"name", "description",
/// "parameters"}. `type` may end with a date, as in "bash_20250124". `name` is what the request calls it, or "". Empty for
/// types of which only the vendor's server knows what they do.
std::optional<Json> function_of_client_tool(std::string_view type, std::string_view name);

/// The syntax of the text that a tool takes.
struct TextSyntax {
  std::string kind{};        ///< "regex", "lark" or another one's name; "" for any text
  std::string definition{};  ///< the regular expression or the grammar
};

/// A function whose only argument is the text `input`, for a tool that takes a text and no JSON. A syntax that can be
/// enforced is part of the schema; any is told to the model.
Tool text_tool(const std::string& name, std::string_view description, const TextSyntax& syntax);
/// The text in the arguments of a call of it. Arguments of another form are taken as they are.
std::string input_of_text_tool(const std::string& arguments);

}  // namespace rocmforge
