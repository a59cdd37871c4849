#include <algorithm>
#include <array>

#include "chat/jinja/filters.h"
#include "chat/jinja/methods.h"
#include "chat/jinja/operations.h"

namespace rocmforge::jinja {
namespace {

template <bool (*holds)(const Value&)>
bool test_of(Interpreter& run, const Value& value, const Arguments& arguments) {
  const Bound bound(run, "a test", arguments, {});
  return holds(value);
}

bool is_defined(const Value& value) { return !value.is_undefined(); }
bool is_undefined(const Value& value) { return value.is_undefined(); }
bool is_none(const Value& value) { return value.is_none(); }
bool is_boolean(const Value& value) { return value.boolean() != nullptr; }
bool is_exactly_true(const Value& value) { return value.boolean() != nullptr && *value.boolean(); }
bool is_exactly_false(const Value& value) { return value.boolean() != nullptr && !*value.boolean(); }
bool is_integer(const Value& value) { return value.integer() != nullptr; }
bool is_float(const Value& value) { return value.real() != nullptr; }
bool is_number(const Value& value) { return value.number().has_value(); }
bool is_text(const Value& value) { return value.text() != nullptr; }
bool is_mapping(const Value& value) { return value.mapping() != nullptr; }
bool is_escaped(const Value& value) { return value.text() != nullptr && value.text()->is_markup(); }

bool is_iterable(const Value& value) {
  return value.text() != nullptr || value.sequence() != nullptr || value.mapping() != nullptr || value.is_undefined();
}

bool is_sequence(const Value& value) {
  const Sequence* sequence = value.sequence();
  const bool has_elements =
      sequence != nullptr && sequence->kind != Sequence::Kind::view && sequence->kind != Sequence::Kind::generator;
  return has_elements || value.text() != nullptr || value.mapping() != nullptr || value.is_undefined();
}

bool is_callable(const Value& value) {
  return value.is_undefined() || (value.object() != nullptr && value.object()->is_callable());
}

template <bool upper_case>
bool has_case(Interpreter& run, const Value& value, const Arguments& arguments) {
  const Method method = find_text_method(upper_case ? "isupper" : "islower");
  return is_true(method(run, run.text(to_text(run, value)), arguments));
}

bool leaves_rest(Interpreter& run, const Value& value, const Value& divisor) {
  return !equal(run, calculate(run, Arithmetic::remainder, value, divisor), Value::integer(0));
}

bool odd(Interpreter& run, const Value& value, const Arguments& arguments) {
  const Bound bound(run, "odd", arguments, {});
  return equal(run, calculate(run, Arithmetic::remainder, value, Value::integer(2)), Value::integer(1));
}

bool even(Interpreter& run, const Value& value, const Arguments& arguments) {
  const Bound bound(run, "even", arguments, {});
  return !leaves_rest(run, value, Value::integer(2));
}

bool divisible(Interpreter& run, const Value& value, const Arguments& arguments) {
  const Bound bound(run, "divisibleby", arguments, {"num"}, 1);
  return !leaves_rest(run, value, bound[0]);
}

bool same(Interpreter& run, const Value& value, const Arguments& arguments) {
  const Bound bound(run, "sameas", arguments, {"other"}, 1);
  return value.type_name() == bound[0].type_name() && equal(run, value, bound[0]);
}

bool contained(Interpreter& run, const Value& value, const Arguments& arguments) {
  const Bound bound(run, "in", arguments, {"seq"}, 1);
  return contains(run, bound[0], value);
}

bool names_filter(Interpreter& /*run*/, const Value& value, const Arguments& /*arguments*/) {
  return value.text() != nullptr && find_filter(value.text()->bytes()) != nullptr;
}

bool names_test(Interpreter& /*run*/, const Value& value, const Arguments& /*arguments*/) {
  return value.text() != nullptr && find_test(value.text()->bytes()) != nullptr;
}

enum class Order { equal, unequal, less, at_most, greater, at_least };

template <Order order>
bool compares(Interpreter& run, const Value& value, const Arguments& arguments) {
  const Bound bound(run, "a comparison", arguments, {"other"}, 1);
  switch (order) {
    case Order::equal:
      return equal(run, value, bound[0]);
    case Order::unequal:
      return !equal(run, value, bound[0]);
    case Order::less:
      return less(run, value, bound[0]);
    case Order::at_most:
      return less(run, value, bound[0]) || equal(run, value, bound[0]);
    case Order::greater:
      return less(run, bound[0], value);
    case Order::at_least:
      return less(run, bound[0], value) || equal(run, value, bound[0]);
  }
  return false;
}

struct NamedTest {
  std::string_view name;
  Test test;
};

constexpr std::array<NamedTest, 39> tests = {{
    {"defined", test_of<is_defined>},
    {"undefined", test_of<is_undefined>},
    {"none", test_of<is_none>},
    {"boolean", test_of<is_boolean>},
    {"true", test_of<is_exactly_true>},
    {"false", test_of<is_exactly_false>},
    {"integer", test_of<is_integer>},
    {"float", test_of<is_float>},
    {"number", test_of<is_number>},
    {"string", test_of<is_text>},
    {"mapping", test_of<is_mapping>},
    {"iterable", test_of<is_iterable>},
    {"sequence", test_of<is_sequence>},
    {"callable", test_of<is_callable>},
    {"escaped", test_of<is_escaped>},
    {"upper", has_case<true>},
    {"lower", has_case<false>},
    {"odd", odd},
    {"even", even},
    {"divisibleby", divisible},
    {"sameas", same},
    {"in", contained},
    {"filter", names_filter},
    {"test", names_test},
    {"==", compares<Order::equal>},
    {"eq", compares<Order::equal>},
    {"equalto", compares<Order::equal>},
    {"!=", compares<Order::unequal>},
    {"ne", compares<Order::unequal>},
    {"<", compares<Order::less>},
    {"lt", compares<Order::less>},
    {"lessthan", compares<Order::less>},
    {"<=", compares<Order::at_most>},
    {"le", compares<Order::at_most>},
    {">", compares<Order::greater>},
    {"gt", compares<Order::greater>},
    {"greaterthan", compares<Order::greater>},
    {">=", compares<Order::at_least>},
    {"ge", compares<Order::at_least>},
}};

}  // namespace

Test find_test(std::string_view name) {
  const auto found = std::ranges::find(tests, name, &NamedTest::name);
  return found == tests.end() || name.empty() ? nullptr : found->test;
}

}  // namespace rocmforge::jinja
