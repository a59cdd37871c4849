#pragma once

#include <spdlog/spdlog.h>

namespace rocmforge {

/// The program's logger writes to standard error; libraries below apps/ log only what a person must know (warnings).
/// `apps/` sets the level and pattern once at start.
template <class... Args>
void log_info(fmt::format_string<Args...> format, Args&&... args) {
  spdlog::info(format, std::forward<Args>(args)...);
}

template <class... Args>
void log_warning(fmt::format_string<Args...> format, Args&&... args) {
  spdlog::warn(format, std::forward<Args>(args)...);
}

}  // namespace rocmforge
