#include "chat/jinja/interpreter.h"

#include <fmt/format.h>

namespace rocmforge::jinja {
namespace {

// Copying is cheap. Operations that examine each byte count their steps themselves.
constexpr std::size_t copied_bytes_of_a_step = 128;

}  // namespace

const Value* Scope::find(std::string_view name, std::size_t& scopes) const {
  for (const Scope* scope = this; scope != nullptr; scope = scope->parent_.get()) {
    ++scopes;
    const auto found = scope->variables_.find(name);
    if (found != scope->variables_.end()) {
      return &found->second;
    }
  }
  return nullptr;
}

void Scope::set(std::string_view name, Value value) {
  const auto found = variables_.find(name);
  if (found != variables_.end()) {
    found->second = std::move(value);
  } else {
    variables_.emplace(name, std::move(value));
  }
}

Interpreter::Interpreter(const Limits& limits, std::shared_ptr<Scope> globals, std::function<std::tm()> clock)
    : limits_(limits), clock_(std::move(clock)), scope_(std::move(globals)) {}

Interpreter::~Interpreter() {
  for (const auto& held : objects_) {
    held->release();
  }
  for (const auto& scope : kept_scopes_) {
    scope->clear();
  }
}

void Interpreter::spend(std::size_t steps) {
  constexpr std::uint64_t units_of_a_step = 3;
  rocmforge::spend(limits_.budget, units_of_a_step * steps);
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

void Interpreter::check_memory(std::size_t bytes) const {
  if (bytes > limits_.live_bytes || meter_->live > limits_.live_bytes - bytes) {
    fail(fmt::format("the template needs more than {} bytes", limits_.live_bytes));
  }
}

void Interpreter::spend_search(std::size_t text_bytes, std::size_t part_bytes) {
  constexpr std::size_t bytes_of_a_step = 16, bytes_of_a_comparison = 64;
  spend(text_bytes / bytes_of_a_step * (1 + part_bytes / bytes_of_a_comparison));
}

template <class Held>
std::shared_ptr<const Held> Interpreter::metered(Held held, std::size_t bytes) {
  constexpr std::size_t overhead = 64;  // of an allocation and its reference count
  bytes += sizeof(Held) + overhead;
  check_memory(bytes);
  const auto drop = [meter = meter_, bytes](const Held* pointer) {
    meter->live -= bytes;
    delete pointer;
  };
  std::shared_ptr<const Held> made(new Held(std::move(held)), drop);
  meter_->live += bytes;
  return made;
}

Value Interpreter::text(Text text) {
  check_size(text.size());
  spend(1 + text.size() / copied_bytes_of_a_step);
  const std::size_t bytes = text.size() + text.runs().size() * sizeof(Text::Run);
  return Value(metered(std::move(text), bytes));
}

void Interpreter::own(ObjectPointer object) {
  constexpr std::size_t steps_of_an_object = 16;
  spend(steps_of_an_object);
  objects_.push_back(std::move(object));
}

void Interpreter::disown(const Object& object) {
  constexpr int owners = 2;  // the caller and the list
  if (!objects_.empty() && objects_.back().get() == &object && objects_.back().use_count() == owners) {
    objects_.pop_back();
  }
}

Value Interpreter::sequence(Sequence::Kind kind, std::vector<Value> items) {
  spend(1 + items.size());
  const std::size_t bytes = items.size() * sizeof(Value);
  auto made = metered(Sequence(kind, std::move(items)), bytes);
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
  constexpr std::size_t index_bytes = 64;  // of the index, for each key
  const std::size_t bytes = mapping.size() * (sizeof(Mapping::Entry) + index_bytes);
  return Value(metered(std::move(mapping), bytes));
}

Value Interpreter::new_namespace(const Mapping& values) {
  spend(1 + values.size());
  auto made = std::make_shared<Namespace>();
  for (const auto& [key, value] : values.entries()) {
    made->set(key.text()->bytes(), value);
  }
  own(made);
  return Value(ObjectPointer(std::move(made)));
}

void Interpreter::keep(std::shared_ptr<Scope> scope) {
  constexpr std::size_t steps_of_a_scope = 16;
  if (kept_scopes_.empty() || kept_scopes_.back() != scope) {
    spend(steps_of_a_scope);
    kept_scopes_.push_back(std::move(scope));
  }
}

Value Interpreter::lookup(std::string_view name) {
  constexpr std::size_t scopes_of_a_step = 4;
  std::size_t scopes = 0;
  const Value* value = scope_->find(name, scopes);
  spend(scopes / scopes_of_a_step);
  return value != nullptr ? *value : Value::undefined(fmt::format("'{}' is undefined", name));
}

void Interpreter::write(const Text& text) {
  check_size(output_.size() + text.size());
  spend(1 + text.size() / copied_bytes_of_a_step);
  check_memory(text.size());
  meter_->live += text.size();
  output_.append(text);
}

void Interpreter::write(std::string_view template_text) {
  check_size(output_.size() + template_text.size());
  spend(1 + template_text.size() / copied_bytes_of_a_step);
  check_memory(template_text.size());
  meter_->live += template_text.size();
  output_.append(template_text, true);
}

Interpreter::Nesting::Nesting(Interpreter& run) : run_(run) {
  if (run_.nesting_ >= run_.limits_.nested_evaluations) {
    run_.fail("nested too deeply");
  }
  ++run_.nesting_;
}

}  // namespace rocmforge::jinja
