#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "chat/jinja/interpreter.h"

namespace rocmforge::jinja {

// Python's operators and Jinja's rules for attributes. Errors are TemplateError with the position of the current node.

enum class Arithmetic { add, subtract, multiply, divide, floor_divide, remainder, power };
Value calculate(Interpreter& run, Arithmetic operation, const Value& left, const Value& right);
Value negate(Interpreter& run, const Value& value, bool minus);

/// The value of the digits. Empty when a character is not a digit of the base, or the value is above the limit of integers.
std::optional<Integer> read_integer(std::string_view digits, int base);

/// left < right, for numbers, texts, and sequences of these.
bool less(Interpreter& run, const Value& left, const Value& right);
bool equal(Interpreter& run, const Value& left, const Value& right);
/// `item in container`.
bool contains(Interpreter& run, const Value& container, const Value& item);

/// `value.name`: a method or attribute, else the element with that key. Undefined when there is none.
Value attribute(Interpreter& run, const Value& value, std::string_view name);
/// `value[key]`: the element, else the method or attribute of that name. Undefined when there is none.
Value element(Interpreter& run, const Value& value, const Value& key);
/// `value[start:stop:step]`. The value none stands for a part that was left out.
Value slice(Interpreter& run, const Value& value, const Value& start, const Value& stop, const Value& step);

/// The items that a loop over the value visits: the elements of a list, the keys of a dictionary, the characters of a text.
std::vector<Value> items(Interpreter& run, const Value& value);
/// Python's len(value).
std::size_t length(Interpreter& run, const Value& value);
Value call(Interpreter& run, const Value& function, const Arguments& arguments);

/// Python's str(value) and repr(value).
Text to_text(Interpreter& run, const Value& value);
Text represent(Interpreter& run, const Value& value);
/// Python's shortest text of a number: "1e+16", "0.1", "2.0".
std::string format_real(double value);
std::string format_integer(Integer value);

/// Assigns the arguments of a call to `names`, by position or by name. The first `required` must be given; others may be
/// missing. Throws TemplateError.
class Bound {
 public:
  Bound(Interpreter& run, std::string_view function, const Arguments& arguments, std::vector<std::string_view> names,
        std::size_t required = 0);
  [[nodiscard]] bool has(std::size_t index) const { return values_[index] != nullptr; }
  [[nodiscard]] const Value& operator[](std::size_t index) const { return *values_[index]; }
  [[nodiscard]] Value value(std::size_t index, Value fallback) const { return has(index) ? *values_[index] : fallback; }
  [[nodiscard]] bool flag(std::size_t index, bool fallback) const;
  [[nodiscard]] std::int64_t integer(std::size_t index, std::int64_t fallback) const;
  [[nodiscard]] const Text& text(std::size_t index) const;

 private:
  Interpreter& run_;
  std::string_view function_;
  std::vector<std::string_view> names_;
  std::vector<const Value*> values_;  // pointers into the arguments
};

}  // namespace rocmforge::jinja
