# Packs the GPU code objects in ROCMFORGE_KERNELS_DIR/ARCHITECTURE (made by tools/build/build_kernels.py) into one archive
# (tools/build/kernel_archive.py), which is embedded in programs or installed beside them. Without code objects the program has no
# archive.
#
# rocmforge_kernels(TARGET) adds to TARGET the embedded archive, in place of embedded_kernels_none.cpp, and the stamp of the sources.
# The global property ROCMFORGE_KERNEL_ARCHIVE is the archive that is to be installed; empty for none.
set(ROCMFORGE_KERNELS_DIR ${PROJECT_SOURCE_DIR}/build/kernels CACHE STRING "Folder of GPU code objects to embed; empty for none")
option(ROCMFORGE_EMBED_KERNELS "GPU code objects in the program, rather than in share/rocmforge/kernels.archive" ON)

# The stamp of the kernel sources, which must be the same in an archive and a program. tools/build/kernel_archive.py computes the
# same.
function(rocmforge_kernel_stamp target)
  set(kernels ${PROJECT_SOURCE_DIR}/src/kernels)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS RELATIVE ${kernels} ${kernels}/*.h ${kernels}/*.hip ${kernels}/*.cu)
  list(FILTER sources EXCLUDE REGEX "/(reference|cpu)/")  # host code
  list(SORT sources)
  list(TRANSFORM sources PREPEND ${kernels}/ OUTPUT_VARIABLE paths)
  set(generated ${CMAKE_CURRENT_BINARY_DIR}/kernel_stamp.cpp)
  add_custom_command(OUTPUT ${generated}
                     COMMAND ${CMAKE_COMMAND} -D "FOLDER=${kernels}" -D "SOURCES=${sources}" -D "OUTPUT=${generated}"
                             -P ${PROJECT_SOURCE_DIR}/cmake/kernel_stamp.cmake
                     DEPENDS ${paths} ${PROJECT_SOURCE_DIR}/cmake/kernel_stamp.cmake
                     COMMENT "Stamping the kernel sources" VERBATIM)
  target_sources(${target} PRIVATE ${generated})
  set_source_files_properties(${generated} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
endfunction()

function(rocmforge_kernels target)
  rocmforge_kernel_stamp(${target})
  if(NOT ROCMFORGE_KERNELS_DIR)
    return()
  endif()
  file(GLOB objects CONFIGURE_DEPENDS ${ROCMFORGE_KERNELS_DIR}/gfx*/*.hsaco ${ROCMFORGE_KERNELS_DIR}/sm_*/*.cubin)
  list(FILTER objects EXCLUDE REGEX "/device_check\\.|-as-gfx")  # the tests' own, read from the folder
  if(NOT objects)
    return()
  endif()
  find_program(ROCMFORGE_PYTHON python3 REQUIRED)
  # A lower level of compression where the archive is made in every build: a quarter more bytes, in a tenth of the time.
  set(level 9)
  if(ROCMFORGE_EMBED_KERNELS)
    set(level 1)
  endif()
  set(archive ${CMAKE_CURRENT_BINARY_DIR}/kernels-${level}/kernels.archive)
  file(MAKE_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/kernels-${level})
  set(script ${PROJECT_SOURCE_DIR}/tools/build/kernel_archive.py)
  add_custom_command(OUTPUT ${archive}
                     COMMAND ${ROCMFORGE_PYTHON} ${script} --level ${level} --output ${archive} ${ROCMFORGE_KERNELS_DIR}
                     DEPENDS ${objects} ${script} ${CMAKE_CURRENT_BINARY_DIR}/kernel_stamp.cpp
                     COMMENT "Packing the GPU code objects" VERBATIM)
  list(LENGTH objects count)
  if(NOT ROCMFORGE_EMBED_KERNELS)
    add_custom_target(rocmforge_kernel_archive ALL DEPENDS ${archive})
    set_property(GLOBAL PROPERTY ROCMFORGE_KERNEL_ARCHIVE ${archive})
    message(STATUS "GPU code objects to install beside the program: ${count}")
    return()
  endif()
  set(generated ${CMAKE_CURRENT_BINARY_DIR}/embedded_kernels.cpp)
  configure_file(${PROJECT_SOURCE_DIR}/cmake/embedded_kernels.cpp.in ${generated} @ONLY)
  set_source_files_properties(${generated} PROPERTIES OBJECT_DEPENDS ${archive} SKIP_UNITY_BUILD_INCLUSION ON)

  get_target_property(sources ${target} SOURCES)
  list(FILTER sources EXCLUDE REGEX "/embedded_kernels_none\\.cpp$")
  set_target_properties(${target} PROPERTIES SOURCES "${sources};${generated}")
  message(STATUS "GPU code objects to embed: ${count}")
endfunction()
