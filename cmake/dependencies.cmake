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
# Formats of images. One that is missing is left out: the program then says so where it meets such an image.
pkg_check_modules(PNG IMPORTED_TARGET libpng)
pkg_check_modules(JPEG IMPORTED_TARGET libjpeg)
pkg_check_modules(WEBP IMPORTED_TARGET libwebp)
find_package(GIF 5 QUIET)
foreach(format IN ITEMS PNG JPEG WEBP GIF)
  if(NOT ${format}_FOUND)
    message(WARNING "no library for ${format}: such images will be refused")
  endif()
endforeach()
# Formats of recordings, likewise.
pkg_check_modules(SNDFILE IMPORTED_TARGET sndfile>=1.1)  # which began to read MP3
if(NOT SNDFILE_FOUND)
  message(WARNING "no libsndfile from 1.1 on: recordings will be refused")
endif()
# For documents, tests and that archive. Code that needs Python looks for it again with REQUIRED. The distribution's
# interpreter comes first, because python3-numpy is installed for it.
find_program(ROCMFORGE_PYTHON python3 PATHS /usr/bin NO_DEFAULT_PATH)
find_program(ROCMFORGE_PYTHON python3)
if(ROCMFORGE_DOWNLOADS)
  pkg_check_modules(CURL REQUIRED IMPORTED_TARGET libcurl>=7.66)
  pkg_check_modules(CRYPTO REQUIRED IMPORTED_TARGET libcrypto)  # checksums
endif()
# fmt checks format strings at compile time, which takes a twentieth of the compile time. Preset `release` turns this off;
# the other presets have it.
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
