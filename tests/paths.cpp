#include "paths.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <stdexcept>

namespace rocmforge::test {
namespace {

/// What the environment names, else the nearest folder above this program that holds `sign`.
std::string folder_with(const char* variable, const std::string& sign) {
  if (const char* named = std::getenv(variable); named != nullptr && *named != '\0') {
    return named;
  }
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe");
  for (std::filesystem::path folder = program.parent_path(); folder != folder.root_path(); folder = folder.parent_path()) {
    if (std::filesystem::exists(folder / sign)) {
      return folder;
    }
  }
  throw std::runtime_error(std::string("no folder above ") + program.c_str() + " has " + sign + "; set " + variable);
}

/// Tells the runner of the tests of a path: a result holds for what was read (tools/checks/suite/record.py).
std::string told(std::string path) {
  if (const char* file = std::getenv("ROCMFORGE_TEST_READS"); file != nullptr) {
    const std::string line = path + "\n";
    const int list = open(file, O_WRONLY | O_APPEND | O_CLOEXEC);
    if (list < 0 || write(list, line.data(), line.size()) != static_cast<ssize_t>(line.size())) {
      throw std::runtime_error(std::string("cannot write to ") + file);
    }
    close(list);
  }
  return path;
}

}  // namespace

std::string source_path(std::string_view file) {
  static const std::string folder = folder_with("ROCMFORGE_SOURCE_DIR", "CMakePresets.json");
  return told(folder + "/" + std::string(file));
}

std::string test_data(std::string_view file) { return source_path("tests/" + std::string(file)); }

std::string build_path(std::string_view file) {
  static const std::string folder = folder_with("ROCMFORGE_BUILD_DIR", "CMakeCache.txt");
  return told(folder + "/" + std::string(file));
}

std::string program_path() { return build_path("apps/rocmforge/rocmforge"); }

}  // namespace rocmforge::test
