#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "chat/jinja/expressions.h"

namespace rocmforge::jinja {

enum class Flow { next, break_loop, continue_loop };

/// A node of a template's syntax tree that writes output or changes variables.
struct Statement {
  Statement() = default;
  virtual ~Statement() = default;
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;
  Flow execute(Interpreter& run) const;

  Position position;

 protected:
  virtual Flow act(Interpreter& run) const = 0;
};

struct Body {
  std::vector<std::unique_ptr<Statement>> statements;
  Flow execute(Interpreter& run) const;
  /// The text that the body writes, in a new scope.
  Text capture(Interpreter& run) const;
};

/// The target of an assignment: a name, an attribute of a namespace, or several of these.
struct Target {
  Position position;
  std::string name, attribute;  ///< attribute: "" for a plain name
  std::vector<Target> parts;
  bool is_several = false;
  void assign(Interpreter& run, const Value& value) const;
};

struct WriteText : Statement {
  std::string text;
  Flow act(Interpreter& run) const override;
};

struct WriteValue : Statement {
  ExpressionPointer expression;
  Flow act(Interpreter& run) const override;
};

struct If : Statement {
  std::vector<std::pair<ExpressionPointer, Body>> branches;
  Body otherwise;
  Flow act(Interpreter& run) const override;
};

struct For : Statement {
  Target target;
  ExpressionPointer iterable;
  ExpressionPointer condition;  ///< null: all items
  bool is_recursive = false;
  Body body, otherwise;
  Flow act(Interpreter& run) const override;
  void loop(Interpreter& run, const Value& over, const std::shared_ptr<Scope>& outer, std::int32_t depth) const;
};

struct Set : Statement {
  Target target;
  ExpressionPointer expression;
  Flow act(Interpreter& run) const override;
};

/// {% set x %}...{% endset %}, and {% filter f %}...{% endfilter %}, which has no target.
struct BlockText : Statement {
  Target target;
  bool has_target = false;
  std::vector<std::unique_ptr<FilterUse>> filters;
  Body body;
  Flow act(Interpreter& run) const override;
};

struct MacroDefinition : Statement {
  std::string name;
  std::vector<std::pair<std::string, ExpressionPointer>> parameters;  ///< null: no default
  bool uses_caller = false, uses_varargs = false, uses_kwargs = false;
  Body body;
  Flow act(Interpreter& run) const override;
};

/// {% call(...) macro(...) %}...{% endcall %}
struct CallBlock : Statement {
  std::unique_ptr<Call> call;
  MacroDefinition caller;
  Flow act(Interpreter& run) const override;
};

/// {% with a = 1 %}, and {% generation %}, which has no assignments.
struct With : Statement {
  std::vector<std::pair<Target, ExpressionPointer>> assignments;
  Body body;
  Flow act(Interpreter& run) const override;
};

struct LoopControl : Statement {
  Flow flow = Flow::next;
  Flow act(Interpreter& run) const override;
};

}  // namespace rocmforge::jinja
