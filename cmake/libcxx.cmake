# -DROCMFORGE_LIBCXX=ON: clang with LLVM's C++ library, 18 or later: older ones have no std::jthread. A distribution's fmt, spdlog and
# GoogleTest are compiled with GCC's: fmt and spdlog serve as headers alone then, and GoogleTest is built from the sources that
# libgtest-dev holds.
option(ROCMFORGE_LIBCXX "Use LLVM's C++ library (clang only)" OFF)
set(ROCMFORGE_FMT fmt::fmt)
set(ROCMFORGE_SPDLOG spdlog::spdlog)
if(ROCMFORGE_LIBCXX)
  add_compile_options(-stdlib=libc++ -fexperimental-library)  # std::jthread
  # spdlog's target names libfmt even so, and with it GCC's library; no symbol of theirs is used.
  add_link_options(-stdlib=libc++ -fexperimental-library -Wl,--as-needed)
  set(ROCMFORGE_FMT fmt::fmt-header-only)
  set(ROCMFORGE_SPDLOG spdlog::spdlog_header_only)
  # Boost 1.74 knows of one compiler alone that the C++ library has no std::result_of any more.
  target_compile_definitions(Boost::headers INTERFACE BOOST_ASIO_HAS_STD_INVOKE_RESULT)
  if(ROCMFORGE_TESTS)
    add_subdirectory(/usr/src/googletest ${CMAKE_BINARY_DIR}/googletest EXCLUDE_FROM_ALL)
  endif()
endif()
