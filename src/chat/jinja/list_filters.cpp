#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "chat/jinja/filters.h"
#include "chat/jinja/operations.h"
#include "chat/jinja/text_operations.h"

namespace rocmforge::jinja {

Value find_attribute(Interpreter& run, const Value& item, const Value& path) {
  if (path.is_none()) {
    return item;
  }
  if (path.text() == nullptr) {
    return element(run, item, path);
  }
  Value found = item;
  for (const Text& part : split(*path.text(), ".", -1, false)) {
    const std::string& name = part.bytes();
    std::int64_t index = 0;
    const auto read = std::from_chars(name.data(), name.data() + name.size(), index);
    const bool is_index = !name.empty() && name[0] != '-' && read.ec == std::errc() && read.ptr == name.data() + name.size();
    found = element(run, found, is_index ? Value::integer(index) : Value::text(part));
  }
  return found;
}

namespace {

Value folded(Interpreter& run, const Value& value, bool case_sensitive) {
  return case_sensitive || value.text() == nullptr ? value : run.text(lower(*value.text()));
}

/// The key by which items are ordered: the item, or its `attribute` if that argument is given.
Value key_of(Interpreter& run, const Value& item, const Bound& bound, std::size_t attribute, bool case_sensitive) {
  return folded(run, bound.has(attribute) ? find_attribute(run, item, bound[attribute]) : item, case_sensitive);
}

struct Keyed {
  std::vector<Value> keys;
  Value item;
};

void sort_by_keys(Interpreter& run, std::vector<Keyed>& keyed, bool reverse) {
  std::ranges::stable_sort(keyed, [&](const Keyed& a, const Keyed& b) {
    const Keyed& first = reverse ? b : a;
    const Keyed& second = reverse ? a : b;
    for (std::size_t i = 0; i < first.keys.size(); ++i) {
      if (!equal(run, first.keys[i], second.keys[i])) {
        return less(run, first.keys[i], second.keys[i]);
      }
    }
    return false;
  });
}

Value sort_filter(Interpreter& run, const Value& value, const Arguments& arguments) {
  const Bound bound(run, "sort", arguments, {"reverse", "case_sensitive", "attribute"});
  std::vector<Value> paths = {bound.value(2, Value(None{}))};
  if (const Text* several = paths[0].text()) {
    std::vector<Value> parts;
    for (const Text& part : split(*several, ",", -1, false)) {
      parts.push_back(Value::text(part));
    }
    paths = std::move(parts);
  }
  std::vector<Keyed> keyed;
  for (const Value& item : items(run, value)) {
    Keyed entry{{}, item};
    for (const Value& path : paths) {
      entry.keys.push_back(folded(run, find_attribute(run, item, path), bound.flag(1, false)));
    }
    keyed.push_back(std::move(entry));
  }
  sort_by_keys(run, keyed, bound.flag(0, false));
  std::vector<Value> out;
  for (Keyed& entry : keyed) {
    out.push_back(std::move(entry.item));
  }
  return run.list(std::move(out));
}

Value dict_sort_filter(Interpreter& run, const Value& value, const Arguments& arguments) {
  const Bound bound(run, "dictsort", arguments, {"case_sensitive", "by", "reverse"});
  const std::string by = bound.has(1) ? bound.text(1).bytes() : "key";
  if (value.mapping() == nullptr || (by != "key" && by != "value")) {
    run.fail(value.mapping() == nullptr ? fmt::format("dictsort: a dictionary is needed, not {}", value.type_name())
                                        : std::string("dictsort: argument 'by' must be 'key' or 'value'"));
  }
  std::vector<Keyed> keyed;
  for (const auto& [key, held] : value.mapping()->entries()) {
    keyed.push_back(
        {{folded(run, by == "key" ? key : held, bound.flag(0, false))}, run.sequence(Sequence::Kind::tuple, {key, held})});
  }
  sort_by_keys(run, keyed, bound.flag(2, false));
  std::vector<Value> out;
  for (Keyed& entry : keyed) {
    out.push_back(std::move(entry.item));
  }
  return run.list(std::move(out));
}

Value group_filter(Interpreter& run, const Value& value, const Arguments& arguments) {
  const Bound bound(run, "groupby", arguments, {"attribute", "default", "case_sensitive"}, 1);
  std::vector<Keyed> keyed;
  for (const Value& item : items(run, value)) {
    Value key = find_attribute(run, item, bound[0]);
    if (key.is_undefined() && bound.has(1)) {
      key = bound[1];
    }
    keyed.push_back({{folded(run, key, bound.flag(2, false)), key}, item});
  }
  std::ranges::stable_sort(keyed, [&](const Keyed& a, const Keyed& b) { return less(run, a.keys[0], b.keys[0]); });
  std::vector<Value> groups;
  for (std::size_t i = 0; i < keyed.size();) {
    std::vector<Value> members;
    const std::size_t first = i;
    for (; i < keyed.size() && equal(run, keyed[i].keys[0], keyed[first].keys[0]); ++i) {
      members.push_back(keyed[i].item);
    }
    Sequence group(Sequence::Kind::tuple, {keyed[first].keys[1], run.list(std::move(members))});
    group.view_name = "group";
    groups.emplace_back(std::make_shared<const Sequence>(std::move(group)));
  }
  return run.list(std::move(groups));
}

Value unique_filter(Interpreter& run, const Value& value, const Arguments& arguments) {
  const Bound bound(run, "unique", arguments, {"case_sensitive", "attribute"});
  std::vector<Value> out;
  Mapping seen;
  for (const Value& item : items(run, value)) {
    Value key = key_of(run, item, bound, 1, bound.flag(0, false));
    if (!is_hashable(key)) {
      run.fail(fmt::format("unique: {} can't be compared", key.type_name()));
    }
    run.spend(key.text() != nullptr ? 1 : seen.size());
    if (seen.find(key) == nullptr) {
      seen.set(std::move(key), Value(None{}));
      out.push_back(item);
    }
  }
  return run.sequence(Sequence::Kind::generator, std::move(out));
}

template <bool largest>
Value extreme_filter(Interpreter& run, const Value& value, const Arguments& arguments) {
  const Bound bound(run, largest ? "max" : "min", arguments, {"case_sensitive", "attribute"});
  const std::vector<Value> held = items(run, value);
  if (held.empty()) {
    return Value::undefined("No aggregated item, sequence was empty.");
  }
  std::size_t best = 0;
  Value best_key = key_of(run, held[0], bound, 1, bound.flag(0, false));
  for (std::size_t i = 1; i < held.size(); ++i) {
    Value key = key_of(run, held[i], bound, 1, bound.flag(0, false));
    if (largest ? less(run, best_key, key) : less(run, key, best_key)) {
      best = i;
      best_key = std::move(key);
    }
  }
  return held[best];
}

Value sum_filter(Interpreter& run, const Value& value, const Arguments& arguments) {
  const Bound bound(run, "sum", arguments, {"attribute", "start"});
  Value sum = bound.value(1, Value::integer(0));
  if (sum.text() != nullptr) {
    run.fail("sum: texts can't be added; use join");
  }
  for (const Value& item : items(run, value)) {
    sum = calculate(run, Arithmetic::add, sum, bound.has(0) ? find_attribute(run, item, bound[0]) : item);
  }
  return sum;
}

Value list_filter(Interpreter& run, const Value& value, const Arguments& arguments) {
  const Bound bound(run, "list", arguments, {});
  return run.list(items(run, value));
}

Value first_filter(Interpreter& run, const Value& value, const Arguments& arguments) {
  const Bound bound(run, "first", arguments, {});
  const std::vector<Value> held = items(run, value);
  return held.empty() ? Value::undefined("No first item, sequence was empty.") : held.front();
}

Value last_filter(Interpreter& run, const Value& value, const Arguments& arguments) {
  const Bound bound(run, "last", arguments, {});
  if (value.sequence() != nullptr && value.sequence()->kind == Sequence::Kind::generator) {
    run.fail("last: a generator can't be read from its end; add |list");
  }
  const std::vector<Value> held = items(run, value);
  return held.empty() ? Value::undefined("No last item, sequence was empty.") : held.back();
}

Value reverse_filter(Interpreter& run, const Value& value, const Arguments& arguments) {
  const Bound bound(run, "reverse", arguments, {});
  std::vector<Value> held = items(run, value);
  std::ranges::reverse(held);
  if (value.text() != nullptr) {
    Text out;
    out.mark(value.text()->is_markup());
    for (const Value& character : held) {
      out.append(*character.text());
    }
    return run.text(std::move(out));
  }
  const bool was_generator = value.sequence() != nullptr && value.sequence()->kind == Sequence::Kind::generator;
  return run.sequence(was_generator ? Sequence::Kind::list : Sequence::Kind::generator, std::move(held));
}

Value items_filter(Interpreter& run, const Value& value, const Arguments& arguments) {
  const Bound bound(run, "items", arguments, {});
  std::vector<Value> pairs;
  if (!value.is_undefined()) {
    if (value.mapping() == nullptr) {
      run.fail("Can only get item pairs from a mapping.");
    }
    for (const auto& [key, held] : value.mapping()->entries()) {
      pairs.push_back(run.sequence(Sequence::Kind::tuple, {key, held}));
    }
  }
  return run.sequence(Sequence::Kind::generator, std::move(pairs));
}

Value batch_filter(Interpreter& run, const Value& value, const Arguments& arguments) {
  const Bound bound(run, "batch", arguments, {"linecount", "fill_with"}, 1);
  const std::vector<Value> held = items(run, value);
  const auto size = static_cast<std::size_t>(std::clamp<std::int64_t>(bound.integer(0, 1), 1, 100'000));
  std::vector<Value> batches;
  for (std::size_t i = 0; i < held.size(); i += size) {
    const auto first = held.begin() + static_cast<std::ptrdiff_t>(i);
    std::vector<Value> batch(first, first + static_cast<std::ptrdiff_t>(std::min(size, held.size() - i)));
    if (bound.has(1) && !bound[1].is_none()) {
      batch.resize(size, bound[1]);
    }
    batches.push_back(run.list(std::move(batch)));
  }
  return run.sequence(Sequence::Kind::generator, std::move(batches));
}

Value slice_filter(Interpreter& run, const Value& value, const Arguments& arguments) {
  const Bound bound(run, "slice", arguments, {"slices", "fill_with"}, 1);
  const std::vector<Value> held = items(run, value);
  const std::int64_t wanted = bound.integer(0, 1);
  if (wanted < 1 || wanted > 100'000) {
    run.fail("slice: the number of slices must be 1 to 100000");
  }
  const auto slices = static_cast<std::size_t>(wanted);
  const std::size_t longer = held.size() % slices;
  std::vector<Value> out;
  auto next = held.begin();
  for (std::size_t i = 0; i < slices; ++i) {
    const auto end = next + static_cast<std::ptrdiff_t>(held.size() / slices + (i < longer ? 1 : 0));
    std::vector<Value> part(next, end);
    next = end;
    if (bound.has(1) && !bound[1].is_none() && i >= longer) {
      part.push_back(bound[1]);
    }
    out.push_back(run.list(std::move(part)));
  }
  return run.sequence(Sequence::Kind::generator, std::move(out));
}

constexpr std::array<NamedFilter, 14> list_filters = {{
    {"sort", sort_filter},
    {"dictsort", dict_sort_filter},
    {"groupby", group_filter},
    {"unique", unique_filter},
    {"min", extreme_filter<false>},
    {"max", extreme_filter<true>},
    {"sum", sum_filter},
    {"list", list_filter},
    {"first", first_filter},
    {"last", last_filter},
    {"reverse", reverse_filter},
    {"items", items_filter},
    {"batch", batch_filter},
    {"slice", slice_filter},
}};

}  // namespace

Filter find_list_filter(std::string_view name) { return find_in(list_filters, name); }

}  // namespace rocmforge::jinja
