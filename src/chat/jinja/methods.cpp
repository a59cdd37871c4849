#include "chat/jinja/methods.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "chat/jinja/operations.h"

namespace rocmforge::jinja {
namespace {

class BoundMethod : public Object {
 public:
  BoundMethod(Value self, Method method) : self_(std::move(self)), method_(method) {}
  [[nodiscard]] std::string_view type_name() const override { return "method"; }
  [[nodiscard]] bool is_callable() const override { return true; }
  Value call(Interpreter& run, const Arguments& arguments) override { return method_(run, self_, arguments); }
  [[nodiscard]] std::int32_t depth() const override { return self_.depth() + 1; }

 private:
  Value self_;
  Method method_;
};

Value view(Interpreter& run, std::string_view name, std::vector<Value> items) {
  Sequence sequence(Sequence::Kind::view, std::move(items));
  sequence.view_name = name;
  run.spend(sequence.items.size());
  return Value(std::make_shared<const Sequence>(std::move(sequence)));
}

Value dict_keys(Interpreter& run, const Value& self, const Arguments& arguments) {
  const Bound bound(run, "keys", arguments, {});
  return view(run, "dict_keys", items(run, self));
}

Value dict_values(Interpreter& run, const Value& self, const Arguments& arguments) {
  const Bound bound(run, "values", arguments, {});
  std::vector<Value> values;
  for (const auto& entry : self.mapping()->entries()) {
    values.push_back(entry.second);
  }
  return view(run, "dict_values", std::move(values));
}

Value dict_items(Interpreter& run, const Value& self, const Arguments& arguments) {
  const Bound bound(run, "items", arguments, {});
  std::vector<Value> pairs;
  for (const auto& [key, value] : self.mapping()->entries()) {
    pairs.push_back(run.sequence(Sequence::Kind::tuple, {key, value}));
  }
  return view(run, "dict_items", std::move(pairs));
}

Value dict_get(Interpreter& run, const Value& self, const Arguments& arguments) {
  const Bound bound(run, "get", arguments, {"key", "default"}, 1);
  if (!is_hashable(bound[0])) {
    run.fail(fmt::format("{} can't be a key", bound[0].type_name()));
  }
  const Value* found = self.mapping()->find(bound[0]);
  return found != nullptr ? *found : bound.value(1, Value(None{}));
}

Value copy(Interpreter& run, const Value& self, const Arguments& arguments) {
  const Bound bound(run, "copy", arguments, {});
  return self;
}

Value list_index(Interpreter& run, const Value& self, const Arguments& arguments) {
  const Bound bound(run, "index", arguments, {"value"}, 1);
  const std::vector<Value>& held = self.sequence()->items;
  for (std::size_t i = 0; i < held.size(); ++i) {
    if (equal(run, held[i], bound[0])) {
      return Value::integer(static_cast<Integer>(i));
    }
  }
  run.fail("index: the list does not hold the value");
}

Value list_count(Interpreter& run, const Value& self, const Arguments& arguments) {
  const Bound bound(run, "count", arguments, {"value"}, 1);
  return Value::integer(
      std::ranges::count_if(self.sequence()->items, [&](const Value& each) { return equal(run, each, bound[0]); }));
}

struct NamedMethod {
  std::string_view name;
  Method method;
};

constexpr std::array<NamedMethod, 5> dict_methods = {
    {{"get", dict_get}, {"items", dict_items}, {"keys", dict_keys}, {"values", dict_values}, {"copy", copy}}};
constexpr std::array<NamedMethod, 3> list_methods = {{{"index", list_index}, {"count", list_count}, {"copy", copy}}};
constexpr std::array<std::string_view, 5> dict_changers = {"clear", "pop", "popitem", "setdefault", "update"};
constexpr std::array<std::string_view, 8> list_changers = {"append", "clear", "pop",    "reverse",
                                                           "insert", "sort",  "extend", "remove"};

template <class Names>
std::optional<Value> unsafe(const Value& value, const Names& names, std::string_view name) {
  if (std::ranges::find(names, name) == names.end()) {
    return std::nullopt;
  }
  return Value::undefined(fmt::format("'{}' would change a {}, which a template must not", name, value.type_name()));
}

template <class Methods>
Method find_method(const Methods& methods, std::string_view name) {
  const auto found = std::ranges::find(methods, name, &NamedMethod::name);
  return found == methods.end() ? nullptr : found->method;
}

}  // namespace

std::optional<Value> find_method(const Value& value, std::string_view name) {
  Method method = nullptr;
  if (value.text() != nullptr) {
    method = find_text_method(name);
  } else if (value.mapping() != nullptr) {
    if (auto refused = unsafe(value, dict_changers, name)) {
      return refused;
    }
    method = find_method(dict_methods, name);
  } else if (const Sequence* sequence = value.sequence()) {
    const bool is_list = sequence->kind == Sequence::Kind::list;
    if (auto refused = is_list ? unsafe(value, list_changers, name) : std::nullopt) {
      return refused;
    }
    const bool has_methods = is_list || sequence->kind == Sequence::Kind::tuple || sequence->kind == Sequence::Kind::range;
    method = has_methods && (is_list || name != "copy") ? find_method(list_methods, name) : nullptr;
  }
  if (method == nullptr) {
    return std::nullopt;
  }
  return Value(ObjectPointer(std::make_shared<BoundMethod>(value, method)));
}

}  // namespace rocmforge::jinja
