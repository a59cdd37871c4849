# Flags every target of the project shares.
add_library(rocmforge_options INTERFACE)
# Warnings take a fifteenth of a program's compile time. Preset `release` turns them off; the other presets have them.
option(ROCMFORGE_WARNINGS "Warn of what compilers find doubtful" ON)
if(ROCMFORGE_WARNINGS)
  target_compile_options(rocmforge_options INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion
                                                     -Wnon-virtual-dtor -Woverloaded-virtual)
endif()
# The compiler must not fuse multiplications and additions, because results would depend on its choice. Fused multiply-adds
# are written explicitly.
target_compile_options(rocmforge_options INTERFACE -ffp-contract=off)
# GCC's garbage collector runs each time its heap has grown by a third, from 128 MiB on. That takes up to a tenth of a large
# compilation. From 512 MiB on it hardly runs.
target_compile_options(rocmforge_options INTERFACE $<$<CXX_COMPILER_ID:GNU>:--param=ggc-min-heapsize=524288>)
# ccache needs these to know objects that are made with a precompiled header.
if(CMAKE_CXX_COMPILER_LAUNCHER MATCHES "ccache")
  target_compile_options(rocmforge_options INTERFACE $<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess>
                                                     "$<$<CXX_COMPILER_ID:Clang>:SHELL:-Xclang -fno-pch-timestamp>")
endif()
# std::stable_sort of GCC 12's C++ library calls a deprecated function of that library. Newer Clang warns of each use.
target_compile_options(rocmforge_options INTERFACE
                       $<$<AND:$<CXX_COMPILER_ID:Clang>,$<VERSION_GREATER_EQUAL:$<CXX_COMPILER_VERSION>,17>>:-Wno-error=deprecated-declarations>)
# In a unity build GCC treats a .cpp as a header and warns of classes with members of types from an unnamed namespace. It
# also warns of locals with the names of another .cpp's functions.
if(CMAKE_UNITY_BUILD)
  target_compile_options(rocmforge_options INTERFACE -Wno-shadow $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
endif()
if(ROCMFORGE_SANITIZE)
  target_compile_options(rocmforge_options INTERFACE -fsanitize=${ROCMFORGE_SANITIZE} -fno-omit-frame-pointer
                                                     -fno-sanitize-recover=all)
  target_link_options(rocmforge_options INTERFACE -fsanitize=${ROCMFORGE_SANITIZE})
  # Programs with sanitizers have 150 MB. LLD links one in a quarter of the default linker's time.
  find_program(ROCMFORGE_LLD ld.lld)
  if(ROCMFORGE_LLD AND CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    target_link_options(rocmforge_options INTERFACE -fuse-ld=lld)
  endif()
endif()

# rocmforge_optimise_little(TARGET): for code that mostly waits or handles text, which the optimiser hardly makes faster.
# Optimisation takes half of such code's compile time, and more with sanitizers.
function(rocmforge_optimise_little target)
  if(ROCMFORGE_SANITIZE)
    target_compile_options(${target} PRIVATE -O0)
  else()
    target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>)
  endif()
endfunction()
