#pragma once

#include <fmt/core.h>

#include <string_view>

namespace rocmforge {

/// Hands one line to the program's logger (standard error). `apps/` sets its level and pattern once at start.
void log_warning_line(std::string_view line);

/// Libraries below apps/ log only what a person must know.
template <class... Args>
void log_warning(fmt::format_string<Args...> format, Args&&... args) {
  log_warning_line(fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace rocmforge
