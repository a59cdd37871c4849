#include "chat/jinja/statements.h"

#include <fmt/format.h>

#include "chat/jinja/loop.h"
#include "chat/jinja/macro.h"

namespace rocmforge::jinja {

Flow Statement::execute(Interpreter& run) const {
  run.at(position);
  const Interpreter::Nesting nesting(run);
  run.spend();
  return act(run);
}

Flow Body::execute(Interpreter& run) const {
  for (const auto& statement : statements) {
    const Flow flow = statement->execute(run);
    if (flow != Flow::next) {
      return flow;
    }
  }
  return Flow::next;
}

Text Body::capture(Interpreter& run) const {
  const Interpreter::ScopeGuard scope(run, run.scope());
  Interpreter::Capture capture(run);
  execute(run);
  return capture.take();
}

void Target::assign(Interpreter& run, const Value& value) const {
  run.at(position);
  if (is_several) {
    const std::vector<Value> values = items(run, value);
    if (values.size() != parts.size()) {
      run.fail(fmt::format("{} values are needed, and there are {}", parts.size(), values.size()));
    }
    for (std::size_t i = 0; i < parts.size(); ++i) {
      parts[i].assign(run, values[i]);
    }
    return;
  }
  if (attribute.empty()) {
    run.scope()->set(name, value);
    return;
  }
  const Value held = run.lookup(name);
  auto* space = dynamic_cast<Namespace*>(held.object());
  if (space == nullptr) {
    run.fail(fmt::format("'{}' is no namespace: its attributes can't be set", name));
  }
  space->set(attribute, value);
}

Flow WriteText::act(Interpreter& run) const {
  run.write(text);
  return Flow::next;
}

Flow WriteValue::act(Interpreter& run) const {
  const Value value = expression->evaluate(run);
  run.at(position);
  if (const Text* text = value.text()) {
    run.write(*text);
  } else {
    run.write(to_text(run, value));
  }
  return Flow::next;
}

Flow If::act(Interpreter& run) const {
  for (const auto& [condition, body] : branches) {
    if (is_true(condition->evaluate(run))) {
      return body.execute(run);
    }
  }
  return otherwise.execute(run);
}

Flow For::act(Interpreter& run) const {
  const Value over = iterable->evaluate(run);
  run.at(iterable->position);
  loop(run, over, run.scope(), 0);
  return Flow::next;
}

void For::loop(Interpreter& run, const Value& over, const std::shared_ptr<Scope>& outer, std::int32_t depth) const {
  std::vector<Value> chosen = items(run, over);
  if (condition != nullptr) {
    std::erase_if(chosen, [&](const Value& item) {
      const Interpreter::ScopeGuard scope(run, outer);
      target.assign(run, item);
      return !is_true(condition->evaluate(run));
    });
  }
  if (chosen.empty()) {
    const Interpreter::ScopeGuard scope(run, outer);
    otherwise.execute(run);
    return;
  }
  const auto state = std::make_shared<Loop>(*this, std::move(chosen), outer, depth);
  run.own(state);
  for (; !state->is_over(); state->advance()) {
    const Interpreter::ScopeGuard scope(run, outer);
    run.scope()->set("loop", Value(ObjectPointer(state)));
    target.assign(run, state->item());
    if (body.execute(run) == Flow::break_loop) {
      break;
    }
  }
  run.disown(*state);
}

Flow Set::act(Interpreter& run) const {
  target.assign(run, expression->evaluate(run));
  return Flow::next;
}

Flow BlockText::act(Interpreter& run) const {
  Value text = run.text(body.capture(run));
  for (const auto& filter : filters) {
    text = filter->apply(run, text);
  }
  if (has_target) {
    target.assign(run, text);
  } else {
    run.write(to_text(run, text));
  }
  return Flow::next;
}

Flow MacroDefinition::act(Interpreter& run) const {
  run.keep(run.scope());
  run.scope()->set(name, Value(ObjectPointer(std::make_shared<Macro>(*this, run.scope()))));
  return Flow::next;
}

Flow CallBlock::act(Interpreter& run) const {
  const Value function = call->function->evaluate(run);
  Arguments arguments = call->arguments.evaluate(run);
  run.keep(run.scope());
  arguments.named.emplace_back("caller", Value(ObjectPointer(std::make_shared<Macro>(caller, run.scope()))));
  run.at(call->position);
  run.write(to_text(run, jinja::call(run, function, arguments)));
  return Flow::next;
}

Flow With::act(Interpreter& run) const {
  std::vector<Value> values;
  for (const auto& assignment : assignments) {
    values.push_back(assignment.second->evaluate(run));
  }
  const Interpreter::ScopeGuard scope(run, run.scope());
  for (std::size_t i = 0; i < values.size(); ++i) {
    assignments[i].first.assign(run, values[i]);
  }
  return body.execute(run);
}

Flow LoopControl::act(Interpreter& /*run*/) const { return flow; }

}  // namespace rocmforge::jinja
