#pragma once

#include <memory>

#include "chat/jinja/statements.h"

namespace rocmforge::jinja {

/// A macro as a function. The interpreter keeps the scope in which the macro was defined.
class Macro : public Object {
 public:
  Macro(const MacroDefinition& definition, std::weak_ptr<Scope> scope) : definition_(definition), scope_(std::move(scope)) {}
  [[nodiscard]] std::string_view type_name() const override { return "Macro"; }
  [[nodiscard]] bool is_callable() const override { return true; }
  Value call(Interpreter& run, const Arguments& arguments) override;
  std::optional<Value> attribute(Interpreter& run, std::string_view name) override;

 private:
  /// Sets the parameters in the current scope.
  void bind(Interpreter& run, const Arguments& arguments) const;

  const MacroDefinition& definition_;
  std::weak_ptr<Scope> scope_;
};

}  // namespace rocmforge::jinja
