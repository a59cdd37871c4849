#pragma once

#include <string>

namespace rocmforge::app {

/// The content of a file, or of standard input for "-". Throws UsageError if it can't be read.
std::string read_text(const std::string& path);

}  // namespace rocmforge::app
