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

/// A function whose only argument is the text `input`, for a tool that takes a text and no JSON.
Json function_of_text_tool(std::string_view name, std::string_view description, std::string_view syntax);
/// The text in the arguments of a call of it. Arguments of another form are taken as they are.
std::string input_of_text_tool(const std::string& arguments);

}  // namespace rocmforge
