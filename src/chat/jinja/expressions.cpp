#include "chat/jinja/expressions.h"

#include <fmt/format.h>

namespace rocmforge::jinja {

Value Expression::evaluate(Interpreter& run) const {
  run.at(position);
  const Interpreter::Nesting nesting(run);
  run.spend();
  return value(run);
}

Value Literal::value(Interpreter& /*run*/) const { return held; }

Value Name::value(Interpreter& run) const { return run.lookup(name); }

Value SequenceLiteral::value(Interpreter& run) const {
  std::vector<Value> values;
  for (const ExpressionPointer& item : items) {
    values.push_back(item->evaluate(run));
  }
  run.at(position);
  return run.sequence(kind, std::move(values));
}

Value DictionaryLiteral::value(Interpreter& run) const {
  Mapping mapping;
  for (const auto& [key, held] : entries) {
    Value key_value = key->evaluate(run);
    run.spend(key_value.weight() + (key_value.text() != nullptr ? 0 : mapping.size()));
    if (!is_hashable(key_value)) {
      run.at(key->position);
      run.fail(fmt::format("{} can't be a key", key_value.type_name()));
    }
    mapping.set(std::move(key_value), held->evaluate(run));
  }
  run.at(position);
  return run.mapping(std::move(mapping));
}

Value AttributeAccess::value(Interpreter& run) const {
  const Value held = object->evaluate(run);
  run.at(position);
  return attribute(run, held, name);
}

Value ElementAccess::value(Interpreter& run) const {
  const Value held = object->evaluate(run);
  const Value index = key->evaluate(run);
  run.at(position);
  return element(run, held, index);
}

Value SliceAccess::value(Interpreter& run) const {
  const auto part = [&](const ExpressionPointer& expression) {
    return expression == nullptr ? Value(None{}) : expression->evaluate(run);
  };
  const Value held = object->evaluate(run);
  const Value from = part(start);
  const Value to = part(stop);
  const Value by = part(step);
  run.at(position);
  return slice(run, held, from, to, by);
}

Arguments CallArguments::evaluate(Interpreter& run) const {
  Arguments out;
  for (const ExpressionPointer& each : positional) {
    out.positional.push_back(each->evaluate(run));
  }
  for (const auto& [name, each] : named) {
    out.named.emplace_back(name, each->evaluate(run));
  }
  if (all_positional != nullptr) {
    for (Value& each : items(run, all_positional->evaluate(run))) {
      out.positional.push_back(std::move(each));
    }
  }
  if (all_named != nullptr) {
    const Value held = all_named->evaluate(run);
    if (held.mapping() == nullptr) {
      run.fail(fmt::format("** needs a dictionary, not {}", held.type_name()));
    }
    for (const auto& [key, value] : held.mapping()->entries()) {
      out.named.emplace_back(to_text(run, key).bytes(), value);
    }
  }
  return out;
}

Value Call::value(Interpreter& run) const {
  const Value held = function->evaluate(run);
  const Arguments evaluated = arguments.evaluate(run);
  run.at(position);
  return call(run, held, evaluated);
}

Value FilterUse::value(Interpreter& run) const { return apply(run, input->evaluate(run)); }

Value FilterUse::apply(Interpreter& run, const Value& text) const {
  const Arguments evaluated = arguments.evaluate(run);
  run.at(position);
  if (filter == nullptr) {
    run.fail(fmt::format("there is no filter '{}'", name));
  }
  return filter(run, text, evaluated);
}

Value TestUse::value(Interpreter& run) const {
  const Value tested = input->evaluate(run);
  const Arguments evaluated = arguments.evaluate(run);
  run.at(position);
  if (test == nullptr) {
    run.fail(fmt::format("there is no test '{}'", name));
  }
  return Value::boolean(test(run, tested, evaluated));
}

Value Not::value(Interpreter& run) const { return Value::boolean(!is_true(operand->evaluate(run))); }

Value Sign::value(Interpreter& run) const {
  const Value held = operand->evaluate(run);
  run.at(position);
  return negate(run, held, minus);
}

Value Calculation::value(Interpreter& run) const {
  const Value a = left->evaluate(run);
  const Value b = right->evaluate(run);
  run.at(position);
  return calculate(run, operation, a, b);
}

Value Concatenation::value(Interpreter& run) const {
  Text out;
  for (const ExpressionPointer& part : parts) {
    const Text text = to_text(run, part->evaluate(run));
    run.check_size(out.size() + text.size());
    out.append(text);
  }
  run.at(position);
  return run.text(std::move(out));
}

Value Comparison::value(Interpreter& run) const {
  Value left = first->evaluate(run);
  for (const auto& [kind, operand] : others) {
    Value right = operand->evaluate(run);
    run.at(position);
    bool holds = false;
    switch (kind) {
      case Kind::equal:
        holds = equal(run, left, right);
        break;
      case Kind::unequal:
        holds = !equal(run, left, right);
        break;
      case Kind::less:
        holds = less(run, left, right);
        break;
      case Kind::at_most:
        holds = less(run, left, right) || equal(run, left, right);
        break;
      case Kind::greater:
        holds = less(run, right, left);
        break;
      case Kind::at_least:
        holds = less(run, right, left) || equal(run, left, right);
        break;
      case Kind::in:
        holds = contains(run, right, left);
        break;
      case Kind::not_in:
        holds = !contains(run, right, left);
        break;
    }
    if (!holds) {
      return Value::boolean(false);
    }
    left = std::move(right);
  }
  return Value::boolean(true);
}

Value Logical::value(Interpreter& run) const {
  Value decides = left->evaluate(run);
  return is_true(decides) == is_and ? right->evaluate(run) : decides;
}

Value Conditional::value(Interpreter& run) const {
  if (is_true(condition->evaluate(run))) {
    return when_true->evaluate(run);
  }
  return when_false != nullptr
             ? when_false->evaluate(run)
             : Value::undefined("the inline if-expression evaluated to false and no else section was defined.");
}

}  // namespace rocmforge::jinja
