#include "step_timeout.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

namespace rocmforge::app {

void end_after_timeout(const std::string& line) {
  std::fflush(stdout);
  fmt::print(stderr, "rocmforge: {}\n", line);
  std::fflush(stderr);
  _exit(exit_step_timeout);
}

}  // namespace rocmforge::app
