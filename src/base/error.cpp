#include "base/error.h"

namespace rocmforge {

void fail_check(std::string_view message, const char* file, int line) {
  throw LogicError(std::string(file) + ":" + std::to_string(line) + ": " + std::string(message));
}

}  // namespace rocmforge
