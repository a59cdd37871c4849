# Debian packages by `cpack`, for the prefix /usr (`./forge package`): rocmforge, librocmforge, librocmforge-attention and
# librocmforge-dev.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME rocmforge)
set(CPACK_PACKAGE_CONTACT "The authors of ROCmForge")
set(CPACK_PACKAGING_INSTALL_PREFIX ${CMAKE_INSTALL_PREFIX})
set(CPACK_COMPONENTS_ALL program library engine development)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)

set(CPACK_DEBIAN_PROGRAM_PACKAGE_NAME rocmforge)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_RECOMMENDS ca-certificates)  # for downloads
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
