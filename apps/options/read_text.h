#pragma once

#include <string>

namespace rocmforge::app {

/// The whole of a file, or of standard input for "-". Throws UsageError when it can't be read.
std::string read_text(const std::string& path);

}  // namespace rocmforge::app
