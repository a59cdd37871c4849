#include "base/log.h"

#include <spdlog/spdlog.h>

#include "base/printable.h"

namespace rocmforge {

void log_warning_line(std::string_view line) {
  const auto own = spdlog::get("rocmforge");  // a library leaves the default to the program that it is part of
  (own != nullptr ? own.get() : spdlog::default_logger_raw())->warn("{}", printable(line, longest_line));
}

}  // namespace rocmforge
