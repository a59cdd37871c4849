# Debian packages by `cpack`, for the prefix /usr (`./forge package`): rocmforge, librocmforge, librocmforge-attention,
# librocmforge-dev, and rocmforge-kernels where there are GPU kernels that no program embeds.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME rocmforge)
set(CPACK_PACKAGE_CONTACT "The authors of ROCmForge")
set(CPACK_PACKAGING_INSTALL_PREFIX ${CMAKE_INSTALL_PREFIX})
set(CPACK_COMPONENTS_ALL program library engine development)
get_property(kernel_archive GLOBAL PROPERTY ROCMFORGE_KERNEL_ARCHIVE)
set(kernel_package "")
if(kernel_archive)
  list(APPEND CPACK_COMPONENTS_ALL kernels)
  set(kernel_package "rocmforge-kernels (= ${PROJECT_VERSION})")
  set(CPACK_DEBIAN_KERNELS_PACKAGE_NAME rocmforge-kernels)
  set(CPACK_DEBIAN_KERNELS_PACKAGE_ARCHITECTURE all)
  set(CPACK_DEBIAN_KERNELS_DESCRIPTION "GPU kernels of ROCmForge
 Code objects for AMD and NVIDIA GPUs, for the program and the libraries of
 the same version.")
  set(CPACK_DEBIAN_LIBRARY_PACKAGE_RECOMMENDS ${kernel_package})
  set(CPACK_DEBIAN_ENGINE_PACKAGE_RECOMMENDS ${kernel_package})
endif()
set(CPACK_STRIP_FILES ON)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)

set(CPACK_DEBIAN_PROGRAM_PACKAGE_NAME rocmforge)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_RECOMMENDS ca-certificates ${kernel_package})  # certificates: for downloads
list(JOIN CPACK_DEBIAN_PROGRAM_PACKAGE_RECOMMENDS ", " CPACK_DEBIAN_PROGRAM_PACKAGE_RECOMMENDS)
set(CPACK_DEBIAN_PROGRAM_DESCRIPTION "runs large language models from GGUF files
 Chats, answers prompts and serves OpenAI's API, on AMD and NVIDIA GPUs or on
 the CPU. A small demo model is part of it.")
file(WRITE ${CMAKE_BINARY_DIR}/conffiles "/etc/default/rocmforge\n")
set(CPACK_DEBIAN_PROGRAM_PACKAGE_CONTROL_EXTRA ${CMAKE_BINARY_DIR}/conffiles)

set(CPACK_DEBIAN_LIBRARY_PACKAGE_NAME librocmforge-attention${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
set(CPACK_DEBIAN_LIBRARY_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_LIBRARY_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_LIBRARY_PACKAGE_CONTROL_EXTRA ${PROJECT_SOURCE_DIR}/packaging/triggers)
set(CPACK_DEBIAN_LIBRARY_DESCRIPTION "attention on GPUs and CPUs
 Attention over dense tensors and paged caches, for C and C++, without a
 model.")

set(CPACK_DEBIAN_ENGINE_PACKAGE_NAME librocmforge${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
set(CPACK_DEBIAN_ENGINE_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_ENGINE_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_ENGINE_PACKAGE_CONTROL_EXTRA ${PROJECT_SOURCE_DIR}/packaging/triggers)
set(CPACK_DEBIAN_ENGINE_DESCRIPTION "language models in C programs
 Loads language models from GGUF files, answers prompts and conversations,
 and serves them over HTTP.")

set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME librocmforge-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS "${CPACK_DEBIAN_LIBRARY_PACKAGE_NAME} (= ${PROJECT_VERSION}), ${CPACK_DEBIAN_ENGINE_PACKAGE_NAME} (= ${PROJECT_VERSION})")
set(CPACK_DEBIAN_DEVELOPMENT_DESCRIPTION "language models and attention: headers
 Headers, and files for CMake and pkg-config.")
include(CPack)
