# Flags every target of the project shares.
add_library(rocmforge_options INTERFACE)
# Warnings take a fifteenth of a program's compile time. Preset `release` leaves them to the others.
option(ROCMFORGE_WARNINGS "Warn of what compilers find doubtful" ON)
if(ROCMFORGE_WARNINGS)
  target_compile_options(rocmforge_options INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion
                                                     -Wnon-virtual-dtor -Woverloaded-virtual)
endif()
# Results must not depend on which body a compiler fuses: fused multiply-adds are written where they are meant.
target_compile_options(rocmforge_options INTERFACE -ffp-contract=off)
# GCC looks for unused memory each time that its heap has grown by a third, from 128 MiB on, which takes up to a tenth of a large
# compilation. From 512 MiB on it hardly has to.
target_compile_options(rocmforge_options INTERFACE $<$<CXX_COMPILER_ID:GNU>:--param=ggc-min-heapsize=524288>)
# The C++ library of GCC 12 calls a deprecated function of its own in std::stable_sort, of which newer Clang warns wherever that is used.
target_compile_options(rocmforge_options INTERFACE
                       $<$<AND:$<CXX_COMPILER_ID:Clang>,$<VERSION_GREATER_EQUAL:$<CXX_COMPILER_VERSION>,17>>:-Wno-error=deprecated-declarations>)
# In a unity build a class of a .cpp may hold members of its unnamed namespace: GCC warns, for it takes the file for a header.
# And its locals may have the names of another .cpp's functions.
if(CMAKE_UNITY_BUILD)
  target_compile_options(rocmforge_options INTERFACE -Wno-shadow $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
endif()
if(ROCMFORGE_SANITIZE)
  target_compile_options(rocmforge_options INTERFACE -fsanitize=${ROCMFORGE_SANITIZE} -fno-omit-frame-pointer
                                                     -fno-sanitize-recover=all)
  target_link_options(rocmforge_options INTERFACE -fsanitize=${ROCMFORGE_SANITIZE})
endif()

# rocmforge_optimise_little(TARGET): for code that waits and words, which an optimiser hardly makes faster. It takes half of such
# code's compile time, and more with sanitizers.
function(rocmforge_optimise_little target)
  if(ROCMFORGE_SANITIZE)
    target_compile_options(${target} PRIVATE -O0)
  else()
    target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>)
  endif()
endfunction()
