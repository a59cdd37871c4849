#pragma once

#include <string_view>

#include "chat/jinja/value.h"

namespace rocmforge::jinja {

using Filter = Value (*)(Interpreter& run, const Value& value, const Arguments& arguments);
using Test = bool (*)(Interpreter& run, const Value& value, const Arguments& arguments);

/// The filter or test with this name, or null. `safe` returns its text unchanged, since nothing is escaped here.
Filter find_filter(std::string_view name);
Filter find_text_filter(std::string_view name);
Filter find_list_filter(std::string_view name);
Filter find_selection_filter(std::string_view name);
Test find_test(std::string_view name);

struct NamedFilter {
  std::string_view name;
  Filter filter;
};

/// The filter with this name in a table, or null.
template <class Table>
Filter find_in(const Table& table, std::string_view name) {
  for (const NamedFilter& each : table) {
    if (each.name == name) {
      return each.filter;
    }
  }
  return nullptr;
}

/// The value that an `attribute` argument ("a.b", "0", 1) selects in an item; undefined when a part of the path is missing.
Value find_attribute(Interpreter& run, const Value& item, const Value& path);

}  // namespace rocmforge::jinja
