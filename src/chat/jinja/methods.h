#pragma once

#include <optional>
#include <string_view>

#include "chat/jinja/value.h"

namespace rocmforge::jinja {

/// A method of a text, list or dictionary, bound to it; empty when the type has none of that name. Methods that change their
/// object are undefined, as in Jinja's sandbox.
std::optional<Value> find_method(const Value& value, std::string_view name);

using Method = Value (*)(Interpreter& run, const Value& self, const Arguments& arguments);
/// Null when there is none.
Method find_text_method(std::string_view name);

}  // namespace rocmforge::jinja
