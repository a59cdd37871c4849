#pragma once

#include <functional>

#include "chat/jinja/interpreter.h"

namespace rocmforge::jinja {

using Function = std::function<Value(Interpreter& run, const Arguments& arguments)>;
Value make_function(Function function);

/// Adds range, dict, namespace, cycler, joiner, raise_exception and strftime_now.
void add_functions(Scope& scope);

}  // namespace rocmforge::jinja
