#pragma once

#include <optional>
#include <string>
#include <string_view>

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

/// Whether answers are held to the syntax. Any text is; a regular expression must match the whole text.
bool can_enforce(const TextSyntax& syntax);

/// A function whose only argument is the text `input`, for a tool that takes a text and no JSON. The syntax is part of the
/// schema if it is `enforced`, and is told to the model in any case.
Json function_of_text_tool(std::string_view name, std::string_view description, const TextSyntax& syntax, bool enforced);
/// The text in the arguments of a call of it. Arguments of another form are taken as they are.
std::string input_of_text_tool(const std::string& arguments);

}  // namespace rocmforge
