#pragma once

#include <fmt/core.h>

#include <exception>
#include <string_view>
#include <utility>

namespace rocmforge {

/// Writes one line to the program's logger (standard error). `apps/` sets its level and pattern once at start.
void log_warning_line(std::string_view line);

/// Logs a formatted warning. Libraries below apps/ log only what the user must know. A line is dropped when there is no
/// memory for it.
template <class... Args>
void log_warning(fmt::format_string<Args...> format, Args&&... args) noexcept {
  try {
    log_warning_line(fmt::format(format, std::forward<Args>(args)...));
  } catch (const std::exception&) {
  }
}

}  // namespace rocmforge
