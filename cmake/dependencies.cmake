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
pkg_check_modules(LZMA REQUIRED IMPORTED_TARGET liblzma)  # of the archive of GPU kernels
# For documents, tests and that archive; who cannot do without asks again, as required. The distribution's interpreter first: that is
# the one python3-numpy serves.
find_program(ROCMFORGE_PYTHON python3 PATHS /usr/bin NO_DEFAULT_PATH)
find_program(ROCMFORGE_PYTHON python3)
if(ROCMFORGE_DOWNLOADS)
  pkg_check_modules(CURL REQUIRED IMPORTED_TARGET libcurl>=7.66)
  pkg_check_modules(CRYPTO REQUIRED IMPORTED_TARGET libcrypto)  # checksums
endif()
# fmt checks format strings as a program compiles, which takes a twentieth of its compile time. Preset `release` leaves that to the others.
option(ROCMFORGE_CHECK_FORMATS "Check format strings as they are compiled" ON)
if(NOT ROCMFORGE_CHECK_FORMATS)
  add_compile_definitions(FMT_CONSTEVAL=)
endif()
include(libcxx)
if(ROCMFORGE_TESTS)
  if(NOT TARGET GTest::gtest)
    find_package(GTest REQUIRED)
  endif()
  include(GoogleTest)
endif()
