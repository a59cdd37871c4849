#include <fmt/format.h>

#include <algorithm>

#include "chat/jinja/methods.h"
#include "chat/jinja/operations.h"

namespace rocmforge::jinja {
namespace {

/// The name of a value's type in Jinja's messages.
std::string owner_name(const Value& value) { return value.is_none() ? "None" : fmt::format("{} object", value.type_name()); }

Value missing_attribute(const Value& value, std::string_view name) {
  return Value::undefined(fmt::format("'{}' has no attribute '{}'", owner_name(value), name));
}

std::optional<Value> own_attribute(Interpreter& run, const Value& value, std::string_view name) {
  if (Object* object = value.object()) {
    return object->attribute(run, name);
  }
  const Sequence* sequence = value.sequence();
  if (sequence != nullptr && sequence->view_name == "group" && (name == "grouper" || name == "list")) {
    return sequence->items[name == "list" ? 1 : 0];
  }
  return find_method(value, name);
}

/// The position of the element with this index; a negative index counts from the end. Empty when there is none.
std::optional<std::size_t> position_of(Integer index, std::size_t size) {
  const auto count = static_cast<Integer>(size);
  const Integer position = index < 0 ? index + count : index;
  return position >= 0 && position < count ? std::optional(static_cast<std::size_t>(position)) : std::nullopt;
}

bool has_elements(const Sequence& sequence) {
  return sequence.kind != Sequence::Kind::view && sequence.kind != Sequence::Kind::generator;
}

std::optional<Value> own_element(Interpreter& run, const Value& value, const Value& key) {
  if (const Mapping* mapping = value.mapping()) {
    if (key.text() == nullptr) {
      run.spend(key.weight() + mapping->size());  // other keys than texts are compared one by one
    }
    const Value* found = is_hashable(key) ? mapping->find(key) : nullptr;
    return found == nullptr ? std::nullopt : std::optional(*found);
  }
  const auto index = key.whole();
  if (!index.has_value()) {
    return std::nullopt;
  }
  if (const Sequence* sequence = value.sequence(); sequence != nullptr && has_elements(*sequence)) {
    const auto position = position_of(*index, sequence->items.size());
    return position.has_value() ? std::optional(sequence->items[*position]) : std::nullopt;
  }
  if (const Text* text = value.text()) {
    run.spend(value.weight());
    const auto position = position_of(*index, count_characters(text->bytes()));
    if (!position.has_value()) {
      return std::nullopt;
    }
    const std::size_t begin = byte_of_character(text->bytes(), *position);
    return run.text(text->part(begin, character_bytes(text->bytes(), begin)));
  }
  return std::nullopt;
}

struct Range {
  Integer start, stop, step;
};

/// The indices of a slice, like Python's slice.indices.
Range resolve(Interpreter& run, std::size_t size, const Value& start, const Value& stop, const Value& step) {
  const auto part = [&](const Value& value, Integer fallback) {
    if (value.is_none()) {
      return fallback;
    }
    if (!value.whole().has_value()) {
      run.fail(fmt::format("a slice takes integers or none, not {}", value.type_name()));
    }
    return *value.whole();
  };
  const Integer by = part(step, 1);
  if (by == 0) {
    run.fail("a slice's step is 0");
  }
  const auto count = static_cast<Integer>(size);
  const Integer lowest = by > 0 ? 0 : -1;
  const Integer highest = by > 0 ? count : count - 1;
  const auto place = [&](const Value& value, Integer fallback) {
    if (value.is_none()) {
      return fallback;
    }
    const Integer index = part(value, 0);
    return std::clamp(index < 0 ? index + count : index, lowest, highest);
  };
  return {place(start, by > 0 ? lowest : highest), place(stop, by > 0 ? highest : lowest), by};
}

template <class Take>
void walk(const Range& range, const Take& take) {
  for (Integer i = range.start; range.step > 0 ? i < range.stop : i > range.stop; i += range.step) {
    take(static_cast<std::size_t>(i));
  }
}

Value slice_text(Interpreter& run, const Text& text, const Value& start, const Value& stop, const Value& step) {
  run.spend(text.size());
  std::vector<std::uint32_t> begins;
  for (std::size_t byte = 0; byte < text.size(); byte += character_bytes(text.bytes(), byte)) {
    begins.push_back(static_cast<std::uint32_t>(byte));
  }
  begins.push_back(static_cast<std::uint32_t>(text.size()));
  const Range range = resolve(run, begins.size() - 1, start, stop, step);
  if (range.step == 1) {
    const std::size_t begin = begins[static_cast<std::size_t>(range.start)];
    const std::size_t end = begins[static_cast<std::size_t>(std::max(range.start, range.stop))];
    return run.text(text.part(begin, end - begin));
  }
  Text out;
  out.mark(text.is_markup());
  walk(range, [&](std::size_t i) { out.append(text, begins[i], begins[i + 1] - begins[i]); });
  return run.text(std::move(out));
}

}  // namespace

Value attribute(Interpreter& run, const Value& value, std::string_view name) {
  if (value.is_undefined()) {
    run.fail(value.reason());
  }
  if (auto own = own_attribute(run, value, name)) {
    return *own;
  }
  const Mapping* mapping = value.mapping();
  const Value* found = mapping == nullptr ? nullptr : mapping->find(name);
  return found != nullptr ? *found : missing_attribute(value, name);
}

Value element(Interpreter& run, const Value& value, const Value& key) {
  if (value.is_undefined()) {
    run.fail(value.reason());
  }
  if (auto own = own_element(run, value, key)) {
    return *own;
  }
  if (const Text* name = key.text()) {
    const auto own = own_attribute(run, value, name->bytes());
    return own.has_value() ? *own : missing_attribute(value, name->bytes());
  }
  return Value::undefined(fmt::format("{} has no element {}", owner_name(value), represent(run, key).bytes()));
}

Value slice(Interpreter& run, const Value& value, const Value& start, const Value& stop, const Value& step) {
  if (const Text* text = value.text()) {
    return slice_text(run, *text, start, stop, step);
  }
  const Sequence* sequence = value.sequence();
  if (sequence == nullptr || !has_elements(*sequence)) {
    run.fail(value.is_undefined() ? value.reason() : fmt::format("{} can't be sliced", value.type_name()));
  }
  std::vector<Value> out;
  walk(resolve(run, sequence->items.size(), start, stop, step), [&](std::size_t i) { out.push_back(sequence->items[i]); });
  return run.sequence(sequence->kind, std::move(out));
}

std::vector<Value> items(Interpreter& run, const Value& value) {
  if (const Sequence* sequence = value.sequence()) {
    run.spend(1 + sequence->items.size());
    if (sequence->kind == Sequence::Kind::generator && std::exchange(sequence->consumed, true)) {
      return {};
    }
    return sequence->items;
  }
  std::vector<Value> out;
  if (const Mapping* mapping = value.mapping()) {
    run.spend(1 + mapping->size());
    for (const auto& entry : mapping->entries()) {
      out.push_back(entry.first);
    }
    return out;
  }
  if (const Text* text = value.text()) {
    for (std::size_t byte = 0; byte < text->size();) {
      const std::size_t size = character_bytes(text->bytes(), byte);
      Text character = text->part(byte, size);
      character.mark(false);
      out.push_back(run.text(std::move(character)));
      byte += size;
    }
    return out;
  }
  if (value.is_undefined()) {
    return out;
  }
  run.fail(fmt::format("{} has no items to loop over", value.type_name()));
}

std::size_t length(Interpreter& run, const Value& value) {
  if (const Text* text = value.text()) {
    run.spend(value.weight());
    return count_characters(text->bytes());
  }
  if (const Mapping* mapping = value.mapping()) {
    return mapping->size();
  }
  const Sequence* sequence = value.sequence();
  if (sequence != nullptr && sequence->kind != Sequence::Kind::generator) {
    return sequence->items.size();
  }
  if (value.is_undefined()) {
    return 0;
  }
  run.fail(fmt::format("{} has no length", value.type_name()));
}

Value call(Interpreter& run, const Value& function, const Arguments& arguments) {
  if (function.is_undefined()) {
    run.fail(function.reason());
  }
  if (function.object() == nullptr) {
    run.fail(fmt::format("{} can't be called", function.type_name()));
  }
  const Value keep = function;  // the call may replace the variable that holds it
  return keep.object()->call(run, arguments);
}

Value Object::call(Interpreter& run, const Arguments& /*arguments*/) {
  run.fail(fmt::format("{} can't be called", type_name()));
}

std::optional<Value> Object::attribute(Interpreter& /*run*/, std::string_view /*name*/) { return std::nullopt; }

Bound::Bound(Interpreter& run, std::string_view function, const Arguments& arguments, std::vector<std::string_view> names,
             std::size_t required)
    : run_(run), function_(function), names_(std::move(names)), values_(names_.size()) {
  const std::string quoted = fmt::format("'{}'", function_);
  if (arguments.positional.size() > names_.size()) {
    run.fail(fmt::format("{} takes at most {} arguments", quoted, names_.size()));
  }
  for (std::size_t i = 0; i < arguments.positional.size(); ++i) {
    values_[i] = &arguments.positional[i];
  }
  run.spend(arguments.named.size());
  for (const auto& [name, value] : arguments.named) {
    const auto place = std::ranges::find(names_, name);
    if (place == names_.end()) {
      run.fail(fmt::format("{} has no argument '{}'", quoted, name));
    }
    const Value*& held = values_[static_cast<std::size_t>(place - names_.begin())];
    if (held != nullptr) {
      run.fail(fmt::format("{} got argument '{}' twice", quoted, name));
    }
    held = &value;
  }
  for (std::size_t i = 0; i < required; ++i) {
    if (values_[i] == nullptr) {
      run.fail(fmt::format("{} needs argument '{}'", quoted, names_[i]));
    }
  }
}

bool Bound::flag(std::size_t index, bool fallback) const { return has(index) ? is_true((*this)[index]) : fallback; }

std::int64_t Bound::integer(std::size_t index, std::int64_t fallback) const {
  if (!has(index)) {
    return fallback;
  }
  const auto whole = (*this)[index].whole();
  constexpr Integer largest = 1LL << 40;
  if (!whole.has_value() || *whole > largest || *whole < -largest) {
    run_.fail(fmt::format("'{}': argument '{}' must be an integer, not {}", function_, names_[index],
                          (whole.has_value() ? "one that is too large" : (*this)[index].type_name())));
  }
  return static_cast<std::int64_t>(*whole);
}

const Text& Bound::text(std::size_t index) const {
  const Text* text = (*this)[index].text();
  if (text == nullptr) {
    run_.fail(
        fmt::format("'{}': argument '{}' must be a text, not {}", function_, names_[index], (*this)[index].type_name()));
  }
  return *text;
}

}  // namespace rocmforge::jinja
