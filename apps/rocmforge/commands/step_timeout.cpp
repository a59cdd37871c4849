#include "commands/step_timeout.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

namespace rocmforge::app {

namespace {

[[noreturn]] void end_with(int code, const std::string& line) {
  std::fflush(stdout);
  fmt::print(stderr, "rocmforge: {}\n", line);
  std::fflush(stderr);
  _exit(code);
}

}  // namespace

void end_after_fault(const std::string& line) { end_with(exit_device_fault, line); }

void end_after_timeout(const std::string& line) { end_with(exit_step_timeout, line); }

}  // namespace rocmforge::app
