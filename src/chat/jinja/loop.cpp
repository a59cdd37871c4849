#include "chat/jinja/loop.h"

#include <algorithm>
#include <array>

#include "chat/jinja/functions.h"

namespace rocmforge::jinja {

Value Loop::call(Interpreter& run, const Arguments& arguments) {
  const Bound bound(run, "loop", arguments, {"iterable"}, 1);
  if (!statement_.is_recursive) {
    run.fail("The loop must have the 'recursive' marker to be called recursively.");
  }
  const Interpreter::Nesting nesting(run);
  Interpreter::Capture capture(run);
  statement_.loop(run, bound[0], outer_, depth_ + 1);
  return run.text(capture.take());
}

void Loop::release() {
  items_.clear();
  last_.reset();
  outer_.reset();
}

Value Loop::cycle(Interpreter& run, const Arguments& arguments) const {
  if (arguments.positional.empty() || !arguments.named.empty()) {
    run.fail("cycle: one or more values are needed, without names");
  }
  return arguments.positional[index_ % arguments.positional.size()];
}

Value Loop::changed(Interpreter& run, const Arguments& arguments) {
  const bool same =
      last_.has_value() && last_->size() == arguments.positional.size() &&
      std::ranges::equal(*last_, arguments.positional, [&](const Value& a, const Value& b) { return equal(run, a, b); });
  last_ = arguments.positional;
  return Value::boolean(!same);
}

std::optional<Value> Loop::attribute(Interpreter& /*run*/, std::string_view name) {
  const auto count = static_cast<Integer>(items_.size());
  const auto index = static_cast<Integer>(index_);
  const std::array<std::pair<std::string_view, Integer>, 7> numbers = {{{"index", index + 1},
                                                                        {"index0", index},
                                                                        {"revindex", count - index},
                                                                        {"revindex0", count - index - 1},
                                                                        {"length", count},
                                                                        {"depth", depth_ + 1},
                                                                        {"depth0", depth_}}};
  for (const auto& [known, number] : numbers) {
    if (name == known) {
      return Value::integer(number);
    }
  }
  if (name == "first" || name == "last") {
    return Value::boolean(name == "first" ? index_ == 0 : index_ + 1 == items_.size());
  }
  if (name == "previtem") {
    return index_ == 0 ? Value::undefined("there is no previous item") : items_[index_ - 1];
  }
  if (name == "nextitem") {
    return index_ + 1 >= items_.size() ? Value::undefined("there is no next item") : items_[index_ + 1];
  }
  const auto self = std::static_pointer_cast<Loop>(shared_from_this());
  if (name == "cycle") {
    return make_function([self](Interpreter& run, const Arguments& arguments) { return self->cycle(run, arguments); });
  }
  if (name == "changed") {
    return make_function([self](Interpreter& run, const Arguments& arguments) { return self->changed(run, arguments); });
  }
  return std::nullopt;
}

}  // namespace rocmforge::jinja
