#include "chat/jinja/template.h"

#include <fmt/format.h>

#include "chat/jinja/functions.h"
#include "chat/jinja/parser.h"

namespace rocmforge::jinja {

namespace {

std::vector<Token> bounded_tokens(std::string_view source) {
  if (source.size() > Template::largest_source) {
    throw TemplateError(
        {}, fmt::format("a template of {} bytes; at most {} are allowed", source.size(), Template::largest_source));
  }
  return tokenize(source, Template::most_tokens);
}

}  // namespace

Template::Template(std::string_view source) : body_(Parser(bounded_tokens(source)).parse()) {}

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
