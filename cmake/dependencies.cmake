# Libraries from the distribution's packages; `./forge` installs them on Debian and Ubuntu.
find_package(Threads REQUIRED)
find_package(CLI11 REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(Boost 1.74 REQUIRED)  # headers alone: Asio and Beast
find_package(PkgConfig REQUIRED)
pkg_check_modules(PCRE2 REQUIRED IMPORTED_TARGET libpcre2-8)
pkg_check_modules(EDIT REQUIRED IMPORTED_TARGET libedit)
if(ROCMFORGE_TESTS)
  find_package(GTest REQUIRED)
  include(GoogleTest)
endif()
