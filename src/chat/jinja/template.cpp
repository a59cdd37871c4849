#include "chat/jinja/template.h"

#include "chat/jinja/functions.h"
#include "chat/jinja/parser.h"

namespace rocmforge::jinja {

Template::Template(std::string_view source) : body_(Parser(tokenize(source)).parse()) {}

Text Template::render(const Mapping& variables, const std::function<std::tm()>& clock, const Limits& limits) const {
  auto functions = std::make_shared<Scope>(nullptr);
  add_functions(*functions);
  auto names = std::make_shared<Scope>(std::move(functions));
  for (const auto& [name, value] : variables.entries()) {
    names->set(name.text()->bytes(), value);
  }
  Interpreter run(limits, std::move(names), clock);
  body_.execute(run);
  return run.take_output();
}

}  // namespace rocmforge::jinja
