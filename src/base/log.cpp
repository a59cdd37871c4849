#include "base/log.h"

#include <spdlog/spdlog.h>

#include "base/printable.h"

namespace rocmforge {

void log_warning_line(std::string_view line) {
  // A library uses its own logger: the default one belongs to the program that loaded it.
  const auto own = spdlog::get("rocmforge");
  (own != nullptr ? own.get() : spdlog::default_logger_raw())->warn("{}", printable(line, longest_line));
}

}  // namespace rocmforge
