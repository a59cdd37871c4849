#include "chat/jinja/macro.h"

#include <fmt/format.h>

#include <algorithm>

namespace rocmforge::jinja {

void Macro::bind(Interpreter& run, const Arguments& arguments) const {
  const auto& parameters = definition_.parameters;
  const std::string quoted = fmt::format("macro '{}'", definition_.name);
  const std::size_t given = std::min(arguments.positional.size(), parameters.size());
  if (arguments.positional.size() > parameters.size() && !definition_.uses_varargs) {
    run.fail(fmt::format("{} takes not more than {} argument(s)", quoted, parameters.size()));
  }
  Mapping others;
  Value caller = Value::undefined("No caller defined");
  run.spend(parameters.size() * (1 + arguments.named.size()));  // each parameter is searched among the named arguments
  for (const auto& [name, value] : arguments.named) {
    const auto parameter = std::ranges::find(parameters, name, &std::pair<std::string, ExpressionPointer>::first);
    if (parameter != parameters.end()) {
      if (static_cast<std::size_t>(parameter - parameters.begin()) < given) {
        run.fail(fmt::format("{} got argument '{}' twice", quoted, name));
      }
    } else if (name == "caller" && definition_.uses_caller) {
      caller = value;
    } else if (definition_.uses_kwargs) {
      others.set(name, value);
    } else {
      run.fail(fmt::format("{} takes no keyword argument '{}'", quoted, name));
    }
  }
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const auto& [name, fallback] = parameters[i];
    const auto named = std::ranges::find(arguments.named, name, &std::pair<std::string, Value>::first);
    if (i < given) {
      run.scope()->set(name, arguments.positional[i]);
    } else if (named != arguments.named.end()) {
      run.scope()->set(name, named->second);
    } else {
      run.scope()->set(name, fallback != nullptr ? fallback->evaluate(run)
                                                 : Value::undefined(fmt::format("parameter '{}' was not provided", name)));
    }
  }
  if (definition_.uses_caller) {
    run.scope()->set("caller", caller);
  }
  if (definition_.uses_kwargs) {
    run.scope()->set("kwargs", run.mapping(std::move(others)));
  }
  if (definition_.uses_varargs) {
    const auto rest = arguments.positional.begin() + static_cast<std::ptrdiff_t>(given);
    run.scope()->set("varargs", run.sequence(Sequence::Kind::tuple, {rest, arguments.positional.end()}));
  }
}

Value Macro::call(Interpreter& run, const Arguments& arguments) {
  const Interpreter::Nesting nesting(run);
  const auto outer = scope_.lock();
  check(outer != nullptr, "a macro's scope is kept while the template is rendered");
  const Interpreter::ScopeGuard scope(run, outer);
  bind(run, arguments);
  Interpreter::Capture capture(run);
  definition_.body.execute(run);
  return run.text(capture.take());
}

std::optional<Value> Macro::attribute(Interpreter& run, std::string_view name) {
  return name == "name" ? std::optional(run.literal(definition_.name)) : std::nullopt;
}

}  // namespace rocmforge::jinja
