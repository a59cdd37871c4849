#include "chat/jinja/operations.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "chat/jinja/format.h"
#include "chat/jinja/text_operations.h"

namespace rocmforge::jinja {
namespace {

// Python's integers have no limit. This one is far above any integer that a conversation needs.
constexpr Integer largest_integer = Integer{1} << 100U;

constexpr std::string_view symbols[] = {"+", "-", "*", "/", "//", "%", "**"};

std::string_view symbol(Arithmetic operation) { return symbols[static_cast<std::size_t>(operation)]; }

Value checked(Interpreter& run, Integer value) {
  if (value > largest_integer || value < -largest_integer) {
    run.fail("an integer that is too large");
  }
  return Value::integer(value);
}

Integer floor_divide(Interpreter& run, Integer left, Integer right) {
  if (right == 0) {
    run.fail("division by zero");
  }
  const Integer quotient = left / right;
  return left % right != 0 && (left < 0) != (right < 0) ? quotient - 1 : quotient;
}

Value integer_power(Interpreter& run, Integer base, Integer exponent) {
  if (exponent < 0) {
    if (base == 0) {
      run.fail("0 cannot be raised to a negative power");
    }
    return Value::real(std::pow(static_cast<double>(base), static_cast<double>(exponent)));
  }
  if (base == 0 || base == 1 || base == -1) {
    return Value::integer(exponent == 0 ? 1 : (base == -1 && exponent % 2 == 0 ? 1 : base));
  }
  Integer result = 1;
  for (; exponent > 0; --exponent) {
    if (__builtin_mul_overflow(result, base, &result) || result > largest_integer || result < -largest_integer) {
      run.fail("an integer that is too large");
    }
  }
  return Value::integer(result);
}

Value calculate_integers(Interpreter& run, Arithmetic operation, Integer left, Integer right) {
  switch (operation) {
    case Arithmetic::add:
      return checked(run, left + right);
    case Arithmetic::subtract:
      return checked(run, left - right);
    case Arithmetic::multiply: {
      Integer product = 0;
      return checked(run, __builtin_mul_overflow(left, right, &product) ? 2 * largest_integer : product);
    }
    case Arithmetic::divide:
      if (right == 0) {
        run.fail("division by zero");
      }
      return Value::real(static_cast<double>(left) / static_cast<double>(right));
    case Arithmetic::floor_divide:
      return checked(run, floor_divide(run, left, right));
    case Arithmetic::remainder:
      return checked(run, left - floor_divide(run, left, right) * right);
    case Arithmetic::power:
      return integer_power(run, left, right);
  }
  throw LogicError("an unknown arithmetic operation");
}

Value calculate_reals(Interpreter& run, Arithmetic operation, double left, double right) {
  const bool divides =
      operation == Arithmetic::divide || operation == Arithmetic::floor_divide || operation == Arithmetic::remainder;
  if (divides && right == 0.0) {
    run.fail("division by zero");
  }
  switch (operation) {
    case Arithmetic::add:
      return Value::real(left + right);
    case Arithmetic::subtract:
      return Value::real(left - right);
    case Arithmetic::multiply:
      return Value::real(left * right);
    case Arithmetic::divide:
      return Value::real(left / right);
    case Arithmetic::floor_divide:
      return Value::real(std::floor(left / right));
    case Arithmetic::remainder: {
      const double rest = std::fmod(left, right);
      return Value::real(rest != 0.0 && (rest < 0.0) != (right < 0.0) ? rest + right : rest);
    }
    case Arithmetic::power: {
      const double result = std::pow(left, right);
      if (std::isnan(result) && !std::isnan(left) && !std::isnan(right)) {
        run.fail("a root of a negative number");
      }
      return Value::real(result);
    }
  }
  throw LogicError("an unknown arithmetic operation");
}

Value repeat(Interpreter& run, const Value& value, Integer count) {
  const auto times = static_cast<std::size_t>(std::clamp<Integer>(count, 0, 1 << 30));
  if (const Text* text = value.text()) {
    run.check_size(text->size() * times);
    run.spend(times * text->runs().size() / 4);
    Text out;
    out.mark(text->is_markup());
    for (std::size_t i = 0; i < times && !text->empty(); ++i) {
      out.append(*text);
    }
    return run.text(std::move(out));
  }
  const Sequence& sequence = *value.sequence();
  run.spend(sequence.items.size() * times);
  std::vector<Value> out;
  for (std::size_t i = 0; i < times && !sequence.items.empty(); ++i) {
    out.insert(out.end(), sequence.items.begin(), sequence.items.end());
  }
  return run.sequence(sequence.kind, std::move(out));
}

bool can_repeat(const Value& value) {
  const Sequence* sequence = value.sequence();
  return value.text() != nullptr ||
         (sequence != nullptr && (sequence->kind == Sequence::Kind::list || sequence->kind == Sequence::Kind::tuple));
}

[[noreturn]] void fail_operands(Interpreter& run, std::string_view operation, const Value& left, const Value& right) {
  for (const Value* value : {&left, &right}) {
    if (value->is_undefined()) {
      run.fail(value->reason());
    }
  }
  run.fail(fmt::format("'{}' can't be used with {} and {}", operation, left.type_name(), right.type_name()));
}

}  // namespace

Value calculate(Interpreter& run, Arithmetic operation, const Value& left, const Value& right) {
  if (left.number().has_value() && right.number().has_value()) {
    const auto a = left.whole();
    const auto b = right.whole();
    return a.has_value() && b.has_value() ? calculate_integers(run, operation, *a, *b)
                                          : calculate_reals(run, operation, *left.number(), *right.number());
  }
  if (operation == Arithmetic::add && left.text() != nullptr && right.text() != nullptr) {
    Text sum = fitting(*left.text(), *right.text());
    const Text added = fitting(*right.text(), *left.text());
    run.check_size(sum.size() + added.size());
    sum.append(added);
    return run.text(std::move(sum));
  }
  if (operation == Arithmetic::add && can_repeat(left) && can_repeat(right) && left.sequence() != nullptr &&
      right.sequence() != nullptr && left.sequence()->kind == right.sequence()->kind) {
    std::vector<Value> sum = left.sequence()->items;
    sum.insert(sum.end(), right.sequence()->items.begin(), right.sequence()->items.end());
    return run.sequence(left.sequence()->kind, std::move(sum));
  }
  if (operation == Arithmetic::multiply && can_repeat(left) && right.whole().has_value()) {
    return repeat(run, left, *right.whole());
  }
  if (operation == Arithmetic::multiply && can_repeat(right) && left.whole().has_value()) {
    return repeat(run, right, *left.whole());
  }
  if (operation == Arithmetic::remainder && left.text() != nullptr) {
    return format_percent(run, *left.text(), right);
  }
  fail_operands(run, symbol(operation), left, right);
}

std::optional<Integer> read_integer(std::string_view digits, int base) {
  Integer value = 0;
  for (const char c : digits) {
    const char lower = static_cast<char>(c | 0x20);
    const int digit = c >= '0' && c <= '9' ? c - '0' : (lower >= 'a' && lower <= 'z' ? lower - 'a' + 10 : base);
    value = value * base + digit;
    if (digit >= base || value > largest_integer) {
      return std::nullopt;
    }
  }
  return digits.empty() ? std::nullopt : std::optional(value);
}

Value negate(Interpreter& run, const Value& value, bool minus) {
  if (const auto whole = value.whole()) {
    return Value::integer(minus ? -*whole : *whole);
  }
  if (const double* real = value.real()) {
    return Value::real(minus ? -*real : *real);
  }
  run.fail(value.is_undefined() ? value.reason() : fmt::format("a sign can't be used with {}", value.type_name()));
}

bool less(Interpreter& run, const Value& left, const Value& right) {
  run.spend(std::min(left.weight(), right.weight()));
  if (left.number().has_value() && right.number().has_value()) {
    const auto a = left.whole();
    const auto b = right.whole();
    return a.has_value() && b.has_value() ? *a < *b : *left.number() < *right.number();
  }
  if (left.text() != nullptr && right.text() != nullptr) {
    return left.text()->bytes() < right.text()->bytes();  // UTF-8 sorts in the order of code points
  }
  const Sequence* a = left.sequence();
  const Sequence* b = right.sequence();
  if (a != nullptr && b != nullptr && can_repeat(left) && a->kind == b->kind) {
    for (std::size_t i = 0; i < a->items.size() && i < b->items.size(); ++i) {
      if (!equal(a->items[i], b->items[i])) {
        return less(run, a->items[i], b->items[i]);
      }
    }
    return a->items.size() < b->items.size();
  }
  fail_operands(run, "<", left, right);
}

bool equal(Interpreter& run, const Value& left, const Value& right) {
  run.spend(std::min(left.weight(), right.weight()));
  return equal(left, right);
}

bool contains(Interpreter& run, const Value& container, const Value& item) {
  run.spend();
  if (const Text* text = container.text()) {
    if (item.text() == nullptr) {
      run.fail(fmt::format("'in' needs a text on its left if there is one on its right, not {}", item.type_name()));
    }
    run.spend_search(text->size(), item.text()->size());
    return text->bytes().find(item.text()->bytes()) != std::string::npos;
  }
  if (const Mapping* mapping = container.mapping()) {
    run.spend(item.text() != nullptr ? 1 : item.weight() + mapping->size());
    if (!is_hashable(item)) {
      run.fail(fmt::format("{} can't be a key", item.type_name()));
    }
    return mapping->find(item) != nullptr;
  }
  if (container.sequence() != nullptr || container.is_undefined()) {
    const std::vector<Value> held = items(run, container);
    return std::ranges::any_of(held, [&](const Value& each) { return equal(run, each, item); });
  }
  run.fail(fmt::format("'in' can't be used with {}", container.type_name()));
}

}  // namespace rocmforge::jinja
