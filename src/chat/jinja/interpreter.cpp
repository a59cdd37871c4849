#include "chat/jinja/interpreter.h"

#include <fmt/format.h>

namespace rocmforge::jinja {
namespace {

constexpr std::size_t bytes_of_a_step = 16;

}  // namespace

const Value* Scope::find(std::string_view name) const {
  for (const Scope* scope = this; scope != nullptr; scope = scope->parent_.get()) {
    for (const auto& [held, value] : scope->variables_) {
      if (held == name) {
        return &value;
      }
    }
  }
  return nullptr;
}

void Scope::set(std::string_view name, Value value) {
  for (auto& [held, old] : variables_) {
    if (held == name) {
      old = std::move(value);
      return;
    }
  }
  variables_.emplace_back(name, std::move(value));
}

Interpreter::Interpreter(const Limits& limits, std::shared_ptr<Scope> globals, std::function<std::tm()> clock)
    : limits_(limits), clock_(std::move(clock)), scope_(std::move(globals)) {}

Interpreter::~Interpreter() {
  for (const auto& held : namespaces_) {
    held->clear();
  }
  for (const auto& scope : kept_scopes_) {
    scope->clear();
  }
}

void Interpreter::spend(std::size_t steps) {
  steps_ += steps;
  if (steps_ > limits_.steps) {
    fail(fmt::format("the template does not come to an end (more than {} steps)", limits_.steps));
  }
}

void Interpreter::check_size(std::size_t text_bytes) const {
  if (text_bytes > limits_.text_bytes) {
    fail(fmt::format("a text of more than {} bytes", limits_.text_bytes));
  }
}

Value Interpreter::text(Text text) {
  check_size(text.size());
  spend(1 + text.size() / bytes_of_a_step);
  return Value::text(std::move(text));
}

Value Interpreter::sequence(Sequence::Kind kind, std::vector<Value> items) {
  spend(1 + items.size());
  auto made = std::make_shared<const Sequence>(kind, std::move(items));
  if (made->depth > limits_.value_depth || made->weight > limits_.value_weight) {
    fail("a list that is too deep or too large");
  }
  return Value(std::move(made));
}

Value Interpreter::mapping(Mapping mapping) {
  spend(1 + mapping.size());
  if (mapping.depth() > limits_.value_depth || mapping.weight() > limits_.value_weight) {
    fail("a dictionary that is too deep or too large");
  }
  return Value(std::make_shared<const Mapping>(std::move(mapping)));
}

Value Interpreter::new_namespace(const Mapping& values) {
  spend(1 + values.size());
  auto made = std::make_shared<Namespace>();
  for (const auto& [key, value] : values.entries()) {
    made->set(key.text()->bytes(), value);
  }
  namespaces_.push_back(made);
  return Value(ObjectPointer(std::move(made)));
}

void Interpreter::keep(std::shared_ptr<Scope> scope) { kept_scopes_.push_back(std::move(scope)); }

Value Interpreter::lookup(std::string_view name) const {
  const Value* value = scope_->find(name);
  return value != nullptr ? *value : Value::undefined(fmt::format("'{}' is undefined", name));
}

void Interpreter::write(const Text& text) {
  check_size(output_.size() + text.size());
  spend(1 + text.size() / bytes_of_a_step);
  output_.append(text);
}

void Interpreter::write(std::string_view template_text) {
  check_size(output_.size() + template_text.size());
  spend(1 + template_text.size() / bytes_of_a_step);
  output_.append(template_text, true);
}

Interpreter::Nesting::Nesting(Interpreter& run) : run_(run) {
  if (run_.nesting_ >= run_.limits_.nested_evaluations) {
    run_.fail("nested too deeply");
  }
  ++run_.nesting_;
}

}  // namespace rocmforge::jinja
