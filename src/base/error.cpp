#include "base/error.h"

namespace rocmforge {

void fail_check(std::string_view message, const std::source_location& where) {
  throw LogicError(std::string(where.file_name()) + ":" + std::to_string(where.line()) + ": " + std::string(message));
}

}  // namespace rocmforge
