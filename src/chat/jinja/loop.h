#pragma once

#include <memory>
#include <vector>

#include "chat/jinja/statements.h"

namespace rocmforge::jinja {

/// The variable `loop` inside a for: the state of the loop, and in a recursive loop also a function that runs it again.
class Loop : public Object {
 public:
  Loop(const For& statement, std::vector<Value> items, std::shared_ptr<Scope> outer, std::int32_t depth)
      : statement_(statement), items_(std::move(items)), outer_(std::move(outer)), depth_(depth) {}

  [[nodiscard]] bool is_over() const { return index_ >= items_.size(); }
  [[nodiscard]] const Value& item() const { return items_[index_]; }
  void advance() { ++index_; }

  [[nodiscard]] std::string_view type_name() const override { return "LoopContext"; }
  [[nodiscard]] bool is_callable() const override { return true; }
  Value call(Interpreter& run, const Arguments& arguments) override;
  std::optional<Value> attribute(Interpreter& run, std::string_view name) override;
  void release() override;
  /// loop.cycle and loop.changed.
  Value cycle(Interpreter& run, const Arguments& arguments) const;
  Value changed(Interpreter& run, const Arguments& arguments);

 private:
  const For& statement_;
  std::vector<Value> items_;
  std::shared_ptr<Scope> outer_;
  std::int32_t depth_;
  std::size_t index_ = 0;
  std::optional<std::vector<Value>> last_;  // the last arguments of changed
};

}  // namespace rocmforge::jinja
