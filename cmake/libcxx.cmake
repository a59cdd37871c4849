# -DROCMFORGE_LIBCXX=ON: clang with LLVM's C++ library, 18 or later: older ones have no std::jthread. A distribution's fmt,
# spdlog and GoogleTest are compiled with GCC's library. So fmt and spdlog are used as headers only, and GoogleTest is built
# from the sources in libgtest-dev.
option(ROCMFORGE_LIBCXX "Use LLVM's C++ library (clang only)" OFF)
set(ROCMFORGE_FMT fmt::fmt)
set(ROCMFORGE_SPDLOG spdlog::spdlog)
if(ROCMFORGE_LIBCXX)
  add_compile_options(-stdlib=libc++ -fexperimental-library)  # std::jthread
  # spdlog's target still links libfmt, and with it GCC's library, but no symbol of them is used.
  add_link_options(-stdlib=libc++ -fexperimental-library -Wl,--as-needed)
  set(ROCMFORGE_FMT fmt::fmt-header-only)
  set(ROCMFORGE_SPDLOG spdlog::spdlog_header_only)
  # Boost 1.74 detects for only one compiler that the C++ library lacks std::result_of.
  target_compile_definitions(Boost::headers INTERFACE BOOST_ASIO_HAS_STD_INVOKE_RESULT)
  if(ROCMFORGE_TESTS)
    add_subdirectory(/usr/src/googletest ${CMAKE_BINARY_DIR}/googletest EXCLUDE_FROM_ALL)
  endif()
endif()
