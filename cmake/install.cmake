# What `cmake --install` installs, in five components: the program with its demo model and service; the attention library;
# the library for whole models; the headers and other files for building with the libraries; and the archive of GPU kernels,
# if it is not embedded.
include(CMakePackageConfigHelpers)

# The program and the library look for models in ../share, beside their own folder. These links serve programs of the build
# folder.
foreach(share IN ITEMS ${CMAKE_BINARY_DIR}/apps/share ${CMAKE_BINARY_DIR}/share)
  file(MAKE_DIRECTORY ${share})
  file(CREATE_LINK ${PROJECT_SOURCE_DIR}/models ${share}/rocmforge SYMBOLIC)
endforeach()

install(TARGETS rocmforge RUNTIME COMPONENT program)
install(FILES ${PROJECT_SOURCE_DIR}/models/forge-demo.gguf ${PROJECT_SOURCE_DIR}/models/mmproj-forge-demo.gguf
        DESTINATION ${CMAKE_INSTALL_DATADIR}/rocmforge COMPONENT program)
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE ${PROJECT_SOURCE_DIR}/README.md DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT program)

# systemd looks below /usr/lib and /usr/local/lib, whatever the architecture's folder is called.
configure_file(${PROJECT_SOURCE_DIR}/packaging/rocmforge.service.in ${CMAKE_BINARY_DIR}/rocmforge.service @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/rocmforge.service DESTINATION lib/systemd/system COMPONENT program)
# For the prefix /usr the configuration folder is /etc, as the service expects.
set(configuration_folder ${CMAKE_INSTALL_SYSCONFDIR})
if(CMAKE_INSTALL_PREFIX STREQUAL "/usr")
  set(configuration_folder ${CMAKE_INSTALL_FULL_SYSCONFDIR})
endif()
install(FILES ${PROJECT_SOURCE_DIR}/packaging/rocmforge.default DESTINATION ${configuration_folder}/default RENAME rocmforge
        PERMISSIONS OWNER_READ OWNER_WRITE COMPONENT program)  # it may hold a key

get_property(kernel_archive GLOBAL PROPERTY ROCMFORGE_KERNEL_ARCHIVE)
if(kernel_archive)
  install(FILES ${kernel_archive} DESTINATION ${CMAKE_INSTALL_DATADIR}/rocmforge COMPONENT kernels)
endif()

set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/rocmforge)
install(TARGETS rocmforge_attention EXPORT rocmforgeTargets
        LIBRARY COMPONENT library NAMELINK_COMPONENT development
        INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(TARGETS rocmforge_library EXPORT rocmforgeTargets
        LIBRARY COMPONENT engine NAMELINK_COMPONENT development
        INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/library/include/rocmforge DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT development)
install(EXPORT rocmforgeTargets NAMESPACE rocmforge:: DESTINATION ${package_folder} COMPONENT development)
configure_package_config_file(${PROJECT_SOURCE_DIR}/packaging/rocmforgeConfig.cmake.in ${CMAKE_BINARY_DIR}/rocmforgeConfig.cmake
                              INSTALL_DESTINATION ${package_folder} NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/rocmforgeConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/rocmforgeConfig.cmake ${CMAKE_BINARY_DIR}/rocmforgeConfigVersion.cmake
        DESTINATION ${package_folder} COMPONENT development)

# The prefix is relative to the folder of the .pc file, so that the installed folder can be moved.
file(RELATIVE_PATH prefix_from_pkgconfig ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
function(rocmforge_pkgconfig pkgconfig_name pkgconfig_library pkgconfig_description)
  configure_file(${PROJECT_SOURCE_DIR}/packaging/library.pc.in ${CMAKE_BINARY_DIR}/${pkgconfig_name}.pc @ONLY)
  install(FILES ${CMAKE_BINARY_DIR}/${pkgconfig_name}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT development)
endfunction()
rocmforge_pkgconfig(rocmforge rocmforge "Language models from GGUF files, for C")
rocmforge_pkgconfig(rocmforge-attention rocmforge_attention "Attention on GPUs and CPUs, for C and C++")
