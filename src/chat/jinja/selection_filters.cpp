#include <fmt/format.h>

#include <array>

#include "chat/jinja/filters.h"
#include "chat/jinja/operations.h"

namespace rocmforge::jinja {
namespace {

Arguments without_first(const Arguments& arguments, std::size_t count) {
  Arguments rest = arguments;
  rest.positional.erase(rest.positional.begin(), rest.positional.begin() + static_cast<std::ptrdiff_t>(count));
  return rest;
}

/// The items of a value. Jinja treats every false value as an empty list here, also none.
std::vector<Value> items_if_true(Interpreter& run, const Value& value) {
  return is_true(value) ? items(run, value) : std::vector<Value>{};
}

std::string name_argument(Interpreter& run, const Arguments& arguments, std::size_t index, std::string_view what) {
  const Text* name = arguments.positional[index].text();
  if (name == nullptr) {
    run.fail(fmt::format("the name of {} must be a text", what));
  }
  return name->bytes();
}

Value map_filter(Interpreter& run, const Value& value, const Arguments& arguments) {
  std::vector<Value> out;
  if (arguments.positional.empty()) {
    const Bound bound(run, "map", arguments, {"attribute", "default"}, 1);
    for (const Value& item : items_if_true(run, value)) {
      Value found = find_attribute(run, item, bound[0]);
      out.push_back(found.is_undefined() && bound.has(1) ? bound[1] : std::move(found));
    }
    return run.sequence(Sequence::Kind::generator, std::move(out));
  }
  const std::string name = name_argument(run, arguments, 0, "a filter");
  const Filter filter = find_filter(name);
  if (filter == nullptr) {
    run.fail(fmt::format("there is no filter '{}'", name));
  }
  const Arguments rest = without_first(arguments, 1);
  for (const Value& item : items_if_true(run, value)) {
    out.push_back(filter(run, item, rest));
  }
  return run.sequence(Sequence::Kind::generator, std::move(out));
}

/// The items for which a test of them, or of their attribute, holds (or does not hold). Without a test, those that are true
/// (or false).
template <bool wanted, bool by_attribute>
Value select(Interpreter& run, const Value& value, const Arguments& arguments) {
  constexpr std::size_t at = by_attribute ? 1 : 0;
  if (arguments.positional.size() < at) {
    run.fail("the name of an attribute is missing");
  }
  const bool has_test = arguments.positional.size() > at;
  const std::string name = has_test ? name_argument(run, arguments, at, "a test") : "";
  const Test test = has_test ? find_test(name) : nullptr;
  if (has_test && test == nullptr) {
    run.fail(fmt::format("there is no test '{}'", name));
  }
  const Arguments rest = without_first(arguments, has_test ? at + 1 : at);
  std::vector<Value> out;
  for (const Value& item : items_if_true(run, value)) {
    const Value tested = by_attribute ? find_attribute(run, item, arguments.positional[0]) : item;
    if ((test != nullptr ? test(run, tested, rest) : is_true(tested)) == wanted) {
      out.push_back(item);
    }
  }
  return run.sequence(Sequence::Kind::generator, std::move(out));
}

constexpr std::array<NamedFilter, 5> selection_filters = {{
    {"map", map_filter},
    {"select", select<true, false>},
    {"reject", select<false, false>},
    {"selectattr", select<true, true>},
    {"rejectattr", select<false, true>},
}};

}  // namespace

Filter find_selection_filter(std::string_view name) { return find_in(selection_filters, name); }

}  // namespace rocmforge::jinja
