#include "chat/jinja/value.h"

#include <algorithm>

namespace rocmforge::jinja {

std::optional<Integer> Value::whole() const {
  if (const Integer* value = integer()) {
    return *value;
  }
  if (const bool* value = boolean()) {
    return *value ? 1 : 0;
  }
  return std::nullopt;
}

std::optional<double> Value::number() const {
  if (const double* value = real()) {
    return *value;
  }
  const auto value = whole();
  return value.has_value() ? std::optional(static_cast<double>(*value)) : std::nullopt;
}

std::string Value::reason() const {
  const auto* undefined = std::get_if<Undefined>(&data_);
  return undefined == nullptr || undefined->reason == nullptr ? "the value is undefined" : *undefined->reason;
}

std::string Value::type_name() const {
  if (const Sequence* items = sequence()) {
    switch (items->kind) {
      case Sequence::Kind::list:
        return "list";
      case Sequence::Kind::tuple:
        return "tuple";
      case Sequence::Kind::range:
        return "range";
      case Sequence::Kind::view:
        return std::string(items->view_name);
      case Sequence::Kind::generator:
        return "generator";
    }
  }
  if (const Object* held = object()) {
    return std::string(held->type_name());
  }
  constexpr std::string_view names[] = {"Undefined", "NoneType", "bool", "int", "float", "str", "", "dict"};
  return std::string(names[data_.index()]);
}

std::int32_t Value::depth() const {
  if (const Sequence* items = sequence()) {
    return items->depth;
  }
  if (const Object* held = object()) {
    return held->depth();
  }
  const Mapping* entries = mapping();
  return entries == nullptr ? 0 : entries->depth();
}

std::size_t Value::weight() const {
  constexpr std::size_t bytes_of_work = 16;
  if (const Text* held = text()) {
    return 1 + held->size() / bytes_of_work;
  }
  if (const Sequence* items = sequence()) {
    return items->weight;
  }
  const Mapping* entries = mapping();
  return entries == nullptr ? 1 : entries->weight();
}

Sequence::Sequence(Kind kind_, std::vector<Value> items_) : kind(kind_), items(std::move(items_)) {
  for (const Value& item : items) {
    depth = std::max(depth, item.depth() + 1);
    weight += item.weight();
  }
}

std::size_t Mapping::locate(const Value& key) const {
  if (const Text* text = key.text()) {
    const auto found = index_.find(text->bytes());
    return found == index_.end() ? entries_.size() : found->second;
  }
  if (index_.size() == entries_.size()) {
    return entries_.size();
  }
  const auto found = std::ranges::find_if(entries_, [&](const Entry& entry) { return equal(entry.first, key); });
  return static_cast<std::size_t>(found - entries_.begin());
}

const Value* Mapping::find(std::string_view key) const {
  const auto found = index_.find(key);
  return found == index_.end() ? nullptr : &entries_[found->second].second;
}

const Value* Mapping::find(const Value& key) const {
  const std::size_t position = locate(key);
  return position == entries_.size() ? nullptr : &entries_[position].second;
}

void Mapping::set(Value key, Value value) {
  depth_ = std::max({depth_, key.depth() + 1, value.depth() + 1});
  weight_ += key.weight() + value.weight();
  const std::size_t position = locate(key);
  if (position < entries_.size()) {
    entries_[position].second = std::move(value);
    return;
  }
  if (const Text* text = key.text()) {
    index_.emplace(text->bytes(), position);
  }
  entries_.emplace_back(std::move(key), std::move(value));
}

void Mapping::set(std::string_view key, Value value) { set(Value::text(Text(key, true)), std::move(value)); }

bool is_hashable(const Value& value) {
  if (value.mapping() != nullptr) {
    return false;
  }
  const Sequence* items = value.sequence();
  return items == nullptr || (items->kind == Sequence::Kind::tuple && std::ranges::all_of(items->items, is_hashable));
}

namespace {

bool equal_mappings(const Mapping& left, const Mapping& right) {
  return left.size() == right.size() && std::ranges::all_of(left.entries(), [&](const Mapping::Entry& entry) {
           const Value* other = right.find(entry.first);
           return other != nullptr && equal(entry.second, *other);
         });
}

}  // namespace

bool equal(const Value& left, const Value& right) {
  if (left.number().has_value() && right.number().has_value()) {
    const auto a = left.whole();
    const auto b = right.whole();
    return a.has_value() && b.has_value() ? *a == *b : *left.number() == *right.number();
  }
  if (left.text() != nullptr && right.text() != nullptr) {
    return left.text()->bytes() == right.text()->bytes();
  }
  if (left.mapping() != nullptr && right.mapping() != nullptr) {
    return equal_mappings(*left.mapping(), *right.mapping());
  }
  if (left.sequence() != nullptr && right.sequence() != nullptr) {
    const Sequence& a = *left.sequence();
    const Sequence& b = *right.sequence();
    const bool by_content = a.kind != Sequence::Kind::generator && a.kind != Sequence::Kind::view;
    return &a == &b || (by_content && a.kind == b.kind &&
                        std::ranges::equal(a.items, b.items, static_cast<bool (*)(const Value&, const Value&)>(equal)));
  }
  if (left.object() != nullptr && right.object() != nullptr) {
    return left.object() == right.object();
  }
  return (left.is_none() && right.is_none()) || (left.is_undefined() && right.is_undefined());
}

bool is_true(const Value& value) {
  if (const Text* text = value.text()) {
    return !text->empty();
  }
  if (const Sequence* items = value.sequence()) {
    return items->kind == Sequence::Kind::generator || !items->items.empty();
  }
  if (const Mapping* entries = value.mapping()) {
    return entries->size() > 0;
  }
  const auto number = value.number();
  return number.has_value() ? *number != 0.0 : value.object() != nullptr;
}

std::optional<Value> Namespace::attribute(Interpreter& /*run*/, std::string_view name) {
  const Value* value = values_.find(name);
  return value == nullptr ? std::nullopt : std::optional(*value);
}

}  // namespace rocmforge::jinja
