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

/// The limits of one rendering. They are needed because templates come with model files, which may be hostile.
/// Together they limit a rendering to about two seconds and 256 MiB on any machine that runs models.
struct Limits {
  std::size_t steps = 20'000'000;          ///< evaluated nodes, processed items, pieces of text
  std::size_t live_bytes = 128ULL << 20U;  ///< of all texts, lists and mappings that exist at one time
  std::size_t text_bytes = 32ULL << 20U;   ///< of one text, also of the output
  std::size_t value_weight = 2'000'000;    ///< of one list or mapping, as Value::weight counts
  std::int32_t value_depth = 256;          ///< levels of nested lists and mappings
  std::int32_t nested_evaluations = 1500;  ///< levels of nested expressions, statements and calls
  WorkBudget* budget = nullptr;            ///< its units are also spent, unless it is null
};

/// The names and values of a block. Inner scopes read outer ones and never change them.
class Scope {
 public:
  explicit Scope(std::shared_ptr<Scope> parent) : parent_(std::move(parent)) {}
  /// Searches this scope and the outer ones; null if none has the name. Adds the number of searched scopes to `scopes`.
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

  /// Sets the position of the next operation, which error messages contain.
  void at(Position position) { position_ = position; }
  [[nodiscard]] Position position() const { return position_; }
  [[noreturn]] void fail(const std::string& message) const { throw TemplateError(position_, message); }
  /// Counts steps. Throws TemplateError when the limit is exceeded, and spends units of the budget.
  void spend(std::size_t steps = 1);

  /// New values. They throw TemplateError when a limit is exceeded.
  Value text(Text text);
  Value literal(std::string_view text) { return this->text(Text(text, true)); }
  Value sequence(Sequence::Kind kind, std::vector<Value> items);
  Value list(std::vector<Value> items) { return sequence(Sequence::Kind::list, std::move(items)); }
  Value mapping(Mapping mapping);
  Value new_namespace(const Mapping& values);
  void check_size(std::size_t text_bytes) const;
  /// Throws TemplateError when `bytes` more would exceed the limit.
  void check_memory(std::size_t bytes) const;
  /// Counts the steps of a search for a text in another text.
  void spend_search(std::size_t text_bytes, std::size_t part_bytes);

  /// Keeps an object that may hold other objects until the end of the rendering. Then all are emptied, because such objects
  /// can form long chains and cycles.
  void own(ObjectPointer object);
  /// Releases the object that was owned last if it is this one and only the caller holds it.
  void disown(const Object& object);

  [[nodiscard]] const std::shared_ptr<Scope>& scope() const { return scope_; }
  /// Keeps a scope, and the outer ones, until the end of the rendering, because a macro refers to it.
  void keep(std::shared_ptr<Scope> scope);
  [[nodiscard]] Value lookup(std::string_view name);
  [[nodiscard]] std::tm now() const { return clock_(); }

  void write(const Text& text);
  void write(std::string_view template_text);
  Text take_output() { return std::move(output_); }

  /// Enters a new scope inside `parent` for the guard's lifetime.
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

  /// Counts one more level of evaluation. Throws TemplateError when the limit is reached.
  class Nesting {
   public:
    explicit Nesting(Interpreter& run);
    ~Nesting() { --run_.nesting_; }
    Nesting(const Nesting&) = delete;
    Nesting& operator=(const Nesting&) = delete;

   private:
    Interpreter& run_;
  };

  /// Collects the text that is written during its lifetime, in place of the output.
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
  /// The bytes of all values that exist. It is shared with them, because values may outlive the interpreter.
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
