#include "read_text.h"

#include <fmt/format.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include "usage_error.h"

namespace rocmforge::app {

std::string read_text(const std::string& path) {
  const bool standard_input = path == "-";
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> opened(standard_input ? nullptr : std::fopen(path.c_str(), "rb"),
                                                         std::fclose);
  std::FILE* file = standard_input ? stdin : opened.get();
  if (file == nullptr) {
    throw UsageError(fmt::format("{}: {}", path, std::strerror(errno)));
  }
  std::string text;
  std::array<char, 65536> buffer{};
  std::size_t count = 0;
  while ((count = std::fread(buffer.data(), 1, buffer.size(), file)) > 0) {
    text.append(buffer.data(), count);
  }
  if (std::ferror(file) != 0) {
    throw UsageError(fmt::format("{}: {}", standard_input ? "standard input" : path, std::strerror(errno)));
  }
  return text;
}

}  // namespace rocmforge::app
