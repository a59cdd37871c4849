#pragma once

#include <fmt/core.h>

#include <exception>
#include <string_view>
#include <utility>

namespace rocmforge {

/// Hands one line to the program's logger (standard error). `apps/` sets its level and pattern once at start.
void log_warning_line(std::string_view line);

/// Libraries below apps/ log only what a person must know. A line for which there is no memory is lost.
template <class... Args>
void log_warning(fmt::format_string<Args...> format, Args&&... args) noexcept {
  try {
    log_warning_line(fmt::format(format, std::forward<Args>(args)...));
  } catch (const std::exception&) {
  }
}

}  // namespace rocmforge
