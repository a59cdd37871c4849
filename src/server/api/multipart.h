#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/work_budget.h"

namespace rocmforge {

/// A field of a form.
struct FormPart {
  std::string name;
  bool is_file = false;      ///< it has the name of a file
  std::string_view content;  ///< of the body
};

/// Whether a request's header Content-Type says that its body is a form of parts.
bool is_form(std::string_view content_type);

/// The parts of a body of the type multipart/form-data (RFC 7578), in their order; at most 64. They are views of the body.
/// Spends units of the budget, if there is one. Throws ApiError(400).
std::vector<FormPart> read_form(std::string_view content_type, std::string_view body, WorkBudget* budget);

}  // namespace rocmforge
