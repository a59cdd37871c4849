#pragma once

#include <optional>
#include <string_view>

#include "chat/jinja/value.h"

namespace rocmforge::jinja {

/// A method of a text, list or dictionary, bound to its object. Empty when the type has no such method. Methods that change
/// their object do not exist, as in Jinja's sandbox.
std::optional<Value> find_method(const Value& value, std::string_view name);

using Method = Value (*)(Interpreter& run, const Value& self, const Arguments& arguments);
/// Null when there is no such method.
Method find_text_method(std::string_view name);

}  // namespace rocmforge::jinja
