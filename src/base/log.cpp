#include "base/log.h"

#include <spdlog/spdlog.h>

#include "base/printable.h"

namespace rocmforge {

void log_warning_line(std::string_view line) { spdlog::warn("{}", printable(line, longest_line)); }

}  // namespace rocmforge
