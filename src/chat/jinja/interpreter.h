#pragma once

#include <cstddef>
#include <cstdint>
#include <ctime>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/work_budget.h"
#include "chat/jinja/template_error.h"
#include "chat/jinja/value.h"

namespace rocmforge::jinja {

/// What one rendering may use. Templates come with model files, so that nobody has read them.
/// Together they keep a rendering within about two seconds and 256 MiB on any machine that runs models.
struct Limits {
  std::size_t steps = 20'000'000;          ///< evaluated nodes, handled items, stretches of text
  std::size_t live_bytes = 128ULL << 20U;  ///< of all texts, lists and mappings that are held at one time
  std::size_t text_bytes = 32ULL << 20U;   ///< of any one text, the output included
  std::size_t value_weight = 2'000'000;    ///< of any one list or mapping, as Value::weight counts
  std::int32_t value_depth = 256;          ///< lists in lists
  std::int32_t nested_evaluations = 1500;  ///< expressions in expressions, statements in statements, calls in calls
  WorkBudget* budget = nullptr;            ///< is spent too, if there is one
};

/// Names and values of a block. Inner scopes see outer ones and never change them.
class Scope {
 public:
  explicit Scope(std::shared_ptr<Scope> parent) : parent_(std::move(parent)) {}
  /// `scopes` counts those that were searched.
  [[nodiscard]] const Value* find(std::string_view name, std::size_t& scopes) const;
  void set(std::string_view name, Value value);
  [[nodiscard]] const std::shared_ptr<Scope>& parent() const { return parent_; }
  void clear() { variables_.clear(); }

 private:
  std::shared_ptr<Scope> parent_;
  std::map<std::string, Value, std::less<>> variables_;
};

/// The state of one rendering.
class Interpreter {
 public:
  Interpreter(const Limits& limits, std::shared_ptr<Scope> globals, std::function<std::tm()> clock);
  ~Interpreter();
  Interpreter(const Interpreter&) = delete;
  Interpreter& operator=(const Interpreter&) = delete;

  /// Names the node whose operation comes next; errors tell its place.
  void at(Position position) { position_ = position; }
  [[nodiscard]] Position position() const { return position_; }
  [[noreturn]] void fail(const std::string& message) const { throw TemplateError(position_, message); }
  /// Counts work; throws TemplateError when the limit is passed.
  void spend(std::size_t steps = 1);

  /// New values, checked against the limits.
  Value text(Text text);
  Value literal(std::string_view text) { return this->text(Text(text, true)); }
  Value sequence(Sequence::Kind kind, std::vector<Value> items);
  Value list(std::vector<Value> items) { return sequence(Sequence::Kind::list, std::move(items)); }
  Value mapping(Mapping mapping);
  Value new_namespace(const Mapping& values);
  void check_size(std::size_t text_bytes) const;
  /// Throws TemplateError when so many more bytes would pass the limit.
  void check_memory(std::size_t bytes) const;
  /// Counts the search for a text in another.
  void spend_search(std::size_t text_bytes, std::size_t part_bytes);

  /// Keeps an object that may hold others until the end, where all are emptied: their chains can be long and closed.
  void own(ObjectPointer object);
  /// Gives the object that was owned last back, if nobody else holds it.
  void disown(const Object& object);

  [[nodiscard]] const std::shared_ptr<Scope>& scope() const { return scope_; }
  /// Keeps a scope, and those around it, for as long as the rendering takes: a macro refers to it.
  void keep(std::shared_ptr<Scope> scope);
  [[nodiscard]] Value lookup(std::string_view name);
  [[nodiscard]] std::tm now() const { return clock_(); }

  void write(const Text& text);
  void write(std::string_view template_text);
  Text take_output() { return std::move(output_); }

  /// Enters a new scope inside `parent` until the end of its life.
  class ScopeGuard {
   public:
    ScopeGuard(Interpreter& run, std::shared_ptr<Scope> parent) : run_(run), outer_(run.scope_) {
      run_.scope_ = std::make_shared<Scope>(std::move(parent));
    }
    ~ScopeGuard() { run_.scope_ = std::move(outer_); }
    ScopeGuard(const ScopeGuard&) = delete;
    ScopeGuard& operator=(const ScopeGuard&) = delete;

   private:
    Interpreter& run_;
    std::shared_ptr<Scope> outer_;
  };

  /// Counts one more level of evaluation.
  class Nesting {
   public:
    explicit Nesting(Interpreter& run);
    ~Nesting() { --run_.nesting_; }
    Nesting(const Nesting&) = delete;
    Nesting& operator=(const Nesting&) = delete;

   private:
    Interpreter& run_;
  };

  /// Collects what is written during its life instead of the output.
  class Capture {
   public:
    explicit Capture(Interpreter& run) : run_(run), outer_(std::exchange(run.output_, Text())) {}
    ~Capture() {
      run_.meter_->live -= run_.output_.size();
      run_.output_ = std::move(outer_);
    }
    Capture(const Capture&) = delete;
    Capture& operator=(const Capture&) = delete;
    Text take() {
      run_.meter_->live -= run_.output_.size();
      return std::exchange(run_.output_, Text());
    }

   private:
    Interpreter& run_;
    Text outer_;
  };

 private:
  /// Bytes that are held; values outlive neither it nor each other's counting.
  struct Meter {
    std::size_t live = 0;
  };
  template <class Held>
  std::shared_ptr<const Held> metered(Held held, std::size_t bytes);

  const Limits& limits_;
  std::shared_ptr<Meter> meter_ = std::make_shared<Meter>();
  std::function<std::tm()> clock_;
  std::shared_ptr<Scope> scope_;
  std::vector<std::shared_ptr<Scope>> kept_scopes_;
  std::vector<ObjectPointer> objects_;
  Text output_;
  Position position_;
  std::size_t steps_ = 0;
  std::int32_t nesting_ = 0;
};

}  // namespace rocmforge::jinja
