#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace rocmforge::test {

/// Counts one kernel's call of an operation whose `elements` were compared with the plain kernel's. `call`: its spec and
/// shape.
void note_compared(std::string_view operation, std::string_view kernel, const std::string& call, std::int64_t elements);

/// Rows of a Markdown table: operation, kernel, the call with most elements, calls, elements. Empty when none was compared.
std::string compared_table();

}  // namespace rocmforge::test
