#include "base/log.h"

#include <spdlog/spdlog.h>

namespace rocmforge {

void log_warning_line(std::string_view line) { spdlog::warn("{}", line); }

}  // namespace rocmforge
