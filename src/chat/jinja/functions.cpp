#include "chat/jinja/functions.h"

#include <fmt/format.h>

#include <array>
#include <ctime>

#include "chat/jinja/operations.h"

namespace rocmforge::jinja {
namespace {

class FunctionObject : public Object {
 public:
  explicit FunctionObject(Function function) : function_(std::move(function)) {}
  [[nodiscard]] std::string_view type_name() const override { return "function"; }
  [[nodiscard]] bool is_callable() const override { return true; }
  Value call(Interpreter& run, const Arguments& arguments) override { return function_(run, arguments); }

 private:
  Function function_;
};

/// The result of `cycler(a, b)`.
class Cycler : public Object {
 public:
  explicit Cycler(std::vector<Value> items) : items_(std::move(items)) {}
  [[nodiscard]] std::string_view type_name() const override { return "Cycler"; }
  void release() override { items_.clear(); }
  std::optional<Value> attribute(Interpreter& /*run*/, std::string_view name) override {
    if (name == "current") {
      return items_[at_];
    }
    const auto self = std::static_pointer_cast<Cycler>(shared_from_this());
    if (name == "next") {
      return make_function([self](Interpreter& /*run*/, const Arguments& /*arguments*/) {
        const Value current = self->items_[self->at_];
        self->at_ = (self->at_ + 1) % self->items_.size();
        return current;
      });
    }
    if (name == "reset") {
      return make_function([self](Interpreter& /*run*/, const Arguments& /*arguments*/) {
        self->at_ = 0;
        return Value(None{});
      });
    }
    return std::nullopt;
  }

 private:
  std::vector<Value> items_;
  std::size_t at_ = 0;
};

/// The result of `joiner(", ")`: a function that returns "" at the first call and the separator at later ones.
class Joiner : public Object {
 public:
  explicit Joiner(Value separator) : separator_(std::move(separator)) {}
  [[nodiscard]] std::string_view type_name() const override { return "Joiner"; }
  [[nodiscard]] bool is_callable() const override { return true; }
  Value call(Interpreter& run, const Arguments& /*arguments*/) override {
    return std::exchange(used_, true) ? separator_ : run.literal("");
  }
  void release() override { separator_ = Value(); }

 private:
  Value separator_;
  bool used_ = false;
};

Value range(Interpreter& run, const Arguments& arguments) {
  const Bound bound(run, "range", arguments, {"start", "stop", "step"}, 1);
  const std::int64_t start = bound.has(1) ? bound.integer(0, 0) : 0;
  const std::int64_t stop = bound.has(1) ? bound.integer(1, 0) : bound.integer(0, 0);
  const std::int64_t step = bound.integer(2, 1);
  constexpr std::int64_t longest = 100'000;  // Jinja's sandbox has the same limit
  if (step == 0) {
    run.fail("range: the step is 0");
  }
  if ((stop - start) / step > longest) {
    run.fail(fmt::format("range: more than {} items", longest));
  }
  std::vector<Value> items;
  for (std::int64_t i = start; step > 0 ? i < stop : i > stop; i += step) {
    items.push_back(Value::integer(i));
  }
  return run.sequence(Sequence::Kind::range, std::move(items));
}

/// The entries of dict(...) and namespace(...): those of a dictionary or of pairs, then the named arguments.
Mapping entries(Interpreter& run, const Arguments& arguments) {
  Mapping made;
  if (arguments.positional.size() > 1) {
    run.fail("at most one dictionary can be given");
  }
  for (const Value& given : arguments.positional) {
    if (const Mapping* mapping = given.mapping()) {
      run.spend(mapping->size());
      made = *mapping;
      continue;
    }
    for (const Value& item : items(run, given)) {
      const std::vector<Value> pair = items(run, item);
      if (pair.size() != 2 || !is_hashable(pair[0])) {
        run.fail("pairs of a key and a value are needed");
      }
      run.spend(pair[0].text() != nullptr ? 1 : made.size());  // other keys than texts are compared one by one
      made.set(pair[0], pair[1]);
    }
  }
  for (const auto& [name, value] : arguments.named) {
    made.set(name, value);
  }
  return made;
}

Value dictionary(Interpreter& run, const Arguments& arguments) { return run.mapping(entries(run, arguments)); }

Value new_namespace(Interpreter& run, const Arguments& arguments) {
  const Mapping values = entries(run, arguments);
  for (const auto& entry : values.entries()) {
    if (entry.first.text() == nullptr) {
      run.fail("the names of a namespace must be texts");
    }
  }
  return run.new_namespace(values);
}

Value cycler(Interpreter& run, const Arguments& arguments) {
  if (arguments.positional.empty()) {
    run.fail("cycler: at least one value is needed");
  }
  auto made = std::make_shared<Cycler>(arguments.positional);
  run.own(made);
  return Value(ObjectPointer(std::move(made)));
}

Value joiner(Interpreter& run, const Arguments& arguments) {
  const Bound bound(run, "joiner", arguments, {"sep"});
  auto made = std::make_shared<Joiner>(bound.value(0, run.literal(", ")));
  run.own(made);
  return Value(ObjectPointer(std::move(made)));
}

Value raise_exception(Interpreter& run, const Arguments& arguments) {
  const Bound bound(run, "raise_exception", arguments, {"message"}, 1);
  constexpr std::size_t longest = 4000;
  std::string message = to_text(run, bound[0]).bytes();
  if (message.size() > longest) {
    std::size_t end = longest;
    while (end > 0 && (static_cast<unsigned char>(message[end]) & 0xC0U) == 0x80) {
      --end;
    }
    message.resize(end);
    message += "...";
  }
  throw TemplateError(run.position(), message, /*raised=*/true);
}

Value strftime_now(Interpreter& run, const Arguments& arguments) {
  const Bound bound(run, "strftime_now", arguments, {"format"}, 1);
  const std::tm now = run.now();
  std::array<char, 4096> buffer{};
  // With a mark at its end, an empty date differs from one that does not fit into the buffer.
  const std::string format = bound.text(0).bytes() + "|";
  const std::size_t size = std::strftime(buffer.data(), buffer.size(), format.c_str(), &now);
  if (size == 0) {
    run.fail("strftime_now: a date that is too long");
  }
  return run.literal({buffer.data(), size - 1});
}

}  // namespace

Value make_function(Function function) {
  return Value(ObjectPointer(std::make_shared<FunctionObject>(std::move(function))));
}

void add_functions(Scope& scope) {
  scope.set("range", make_function(range));
  scope.set("dict", make_function(dictionary));
  scope.set("namespace", make_function(new_namespace));
  scope.set("cycler", make_function(cycler));
  scope.set("joiner", make_function(joiner));
  scope.set("raise_exception", make_function(raise_exception));
  scope.set("strftime_now", make_function(strftime_now));
}

}  // namespace rocmforge::jinja
