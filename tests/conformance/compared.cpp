#include "conformance/compared.h"

#include <map>
#include <utility>

namespace rocmforge::test {
namespace {

struct Compared {
  std::int64_t calls = 0;
  std::int64_t elements = 0;
  std::int64_t most_elements = -1;
  std::string largest;
};

/// By operation and kernel.
std::map<std::pair<std::string, std::string>, Compared>& all_compared() {
  static std::map<std::pair<std::string, std::string>, Compared> all;
  return all;
}

}  // namespace

void note_compared(std::string_view operation, std::string_view kernel, const std::string& call, std::int64_t elements) {
  Compared& one = all_compared()[{std::string(operation), std::string(kernel)}];
  ++one.calls;
  one.elements += elements;
  if (elements > one.most_elements) {
    one.most_elements = elements;
    one.largest = call;
  }
}

std::string compared_table() {
  std::string table;
  for (const auto& [names, one] : all_compared()) {
    table += "| " + names.first + " | " + names.second + " | " + one.largest + " | " + std::to_string(one.calls) + " | " +
             std::to_string(one.elements) + " |\n";
  }
  return table.empty() ? table
                       : "| operation | kernel | largest call | calls | elements |\n|---|---|---|---:|---:|\n" + table;
}

}  // namespace rocmforge::test
