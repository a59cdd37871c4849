#pragma once

#include <string>
#include <string_view>

namespace rocmforge::test {

/// Files of this checkout and of this build: of the folders that the environment names (ROCMFORGE_SOURCE_DIR,
/// ROCMFORGE_BUILD_DIR), else of those above this program. ctest names the checkout. No test is compiled with a path, so
/// that a compiler's cache serves every checkout.

/// "docs/models.md", as a path
std::string source_path(std::string_view file);

/// "golden/models", of the folder tests
std::string test_data(std::string_view file);

/// "tests/librocmforge_fake_blas.so", as a path
std::string build_path(std::string_view file);

/// The built program.
std::string program_path();

}  // namespace rocmforge::test
