#pragma once

#include <string_view>

#include "chat/jinja/value.h"

namespace rocmforge::jinja {

using Filter = Value (*)(Interpreter& run, const Value& value, const Arguments& arguments);
using Test = bool (*)(Interpreter& run, const Value& value, const Arguments& arguments);

/// Null when there is none of that name. `safe` gives its text as it is: nothing here escapes.
Filter find_filter(std::string_view name);
Filter find_text_filter(std::string_view name);
Filter find_list_filter(std::string_view name);
Filter find_selection_filter(std::string_view name);
Test find_test(std::string_view name);

struct NamedFilter {
  std::string_view name;
  Filter filter;
};

/// The filter of that name in a table.
template <class Table>
Filter find_in(const Table& table, std::string_view name) {
  for (const NamedFilter& each : table) {
    if (each.name == name) {
      return each.filter;
    }
  }
  return nullptr;
}

/// The value that an `attribute` argument ("a.b", "0", 1) finds in an item; undefined where a part is missing.
Value find_attribute(Interpreter& run, const Value& item, const Value& path);

}  // namespace rocmforge::jinja
