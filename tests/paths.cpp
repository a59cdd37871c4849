#include "paths.h"

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

}  // namespace

std::string source_path(std::string_view file) {
  static const std::string folder = folder_with("ROCMFORGE_SOURCE_DIR", "CMakePresets.json");
  return folder + "/" + std::string(file);
}

std::string test_data(std::string_view file) { return source_path("tests/" + std::string(file)); }

std::string build_path(std::string_view file) {
  static const std::string folder = folder_with("ROCMFORGE_BUILD_DIR", "CMakeCache.txt");
  return folder + "/" + std::string(file);
}

std::string program_path() { return build_path("apps/rocmforge/rocmforge"); }

}  // namespace rocmforge::test
