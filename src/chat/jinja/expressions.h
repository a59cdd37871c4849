#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "chat/jinja/filters.h"
#include "chat/jinja/interpreter.h"
#include "chat/jinja/operations.h"

namespace rocmforge::jinja {

/// A node of a template's syntax tree that has a value.
struct Expression {
  Expression() = default;
  virtual ~Expression() = default;
  Expression(const Expression&) = delete;
  Expression& operator=(const Expression&) = delete;
  /// Returns the value in the current scope. Counts one step and one level of nesting.
  Value evaluate(Interpreter& run) const;

  Position position;

 protected:
  virtual Value value(Interpreter& run) const = 0;
};

using ExpressionPointer = std::unique_ptr<Expression>;
using Expressions = std::vector<ExpressionPointer>;

struct Literal : Expression {
  Value held;
  Value value(Interpreter& run) const override;
};

struct Name : Expression {
  std::string name;
  Value value(Interpreter& run) const override;
};

/// A list or tuple.
struct SequenceLiteral : Expression {
  Sequence::Kind kind = Sequence::Kind::list;
  Expressions items;
  Value value(Interpreter& run) const override;
};

struct DictionaryLiteral : Expression {
  std::vector<std::pair<ExpressionPointer, ExpressionPointer>> entries;
  Value value(Interpreter& run) const override;
};

struct AttributeAccess : Expression {
  ExpressionPointer object;
  std::string name;
  Value value(Interpreter& run) const override;
};

struct ElementAccess : Expression {
  ExpressionPointer object, key;
  Value value(Interpreter& run) const override;
};

struct SliceAccess : Expression {
  ExpressionPointer object, start, stop, step;  // null when left out
  Value value(Interpreter& run) const override;
};

struct CallArguments {
  Expressions positional;
  std::vector<std::pair<std::string, ExpressionPointer>> named;
  ExpressionPointer all_positional, all_named;  // the values after * and **
  Arguments evaluate(Interpreter& run) const;
};

struct Call : Expression {
  ExpressionPointer function;
  CallArguments arguments;
  Value value(Interpreter& run) const override;
};

struct FilterUse : Expression {
  ExpressionPointer input;  ///< null in a filter block: its text is passed to `apply`
  std::string name;
  Filter filter = nullptr;
  CallArguments arguments;
  Value value(Interpreter& run) const override;
  Value apply(Interpreter& run, const Value& text) const;
};

struct TestUse : Expression {
  ExpressionPointer input;
  std::string name;
  Test test = nullptr;
  CallArguments arguments;
  Value value(Interpreter& run) const override;
};

struct Not : Expression {
  ExpressionPointer operand;
  Value value(Interpreter& run) const override;
};

struct Sign : Expression {
  ExpressionPointer operand;
  bool minus = false;
  Value value(Interpreter& run) const override;
};

struct Calculation : Expression {
  Arithmetic operation = Arithmetic::add;
  ExpressionPointer left, right;
  Value value(Interpreter& run) const override;
};

/// a ~ b ~ c
struct Concatenation : Expression {
  Expressions parts;
  Value value(Interpreter& run) const override;
};

/// a < b <= c: true if every neighbouring pair compares so.
struct Comparison : Expression {
  enum class Kind { equal, unequal, less, at_most, greater, at_least, in, not_in };
  ExpressionPointer first;
  std::vector<std::pair<Kind, ExpressionPointer>> others;
  Value value(Interpreter& run) const override;
};

/// `and`, `or`: the value is that of the operand that decides.
struct Logical : Expression {
  bool is_and = false;
  ExpressionPointer left, right;
  Value value(Interpreter& run) const override;
};

struct Conditional : Expression {
  ExpressionPointer condition, when_true, when_false;  // when_false may be null
  Value value(Interpreter& run) const override;
};

}  // namespace rocmforge::jinja
