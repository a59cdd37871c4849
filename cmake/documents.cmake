# The manual page and the completions of bash, zsh and fish, made from the output of `help --json`.
if(ROCMFORGE_PYTHON)
  set(pages ${CMAKE_BINARY_DIR}/documents)
  file(MAKE_DIRECTORY ${pages})
  add_custom_command(
    OUTPUT ${pages}/help.json ${pages}/rocmforge.1 ${pages}/rocmforge.bash ${pages}/_rocmforge ${pages}/rocmforge.fish
    COMMAND rocmforge help --json > ${pages}/help.json
    COMMAND ${ROCMFORGE_PYTHON} ${PROJECT_SOURCE_DIR}/tools/package/make_man_page.py ${pages}/help.json ${pages}/rocmforge.1
    COMMAND ${ROCMFORGE_PYTHON} ${PROJECT_SOURCE_DIR}/tools/package/make_completions.py ${pages}/help.json ${pages}
    DEPENDS rocmforge ${PROJECT_SOURCE_DIR}/tools/package/make_man_page.py ${PROJECT_SOURCE_DIR}/tools/package/make_completions.py
    COMMENT "Writing the manual page and the completions" VERBATIM)
  add_custom_target(rocmforge_documents ALL DEPENDS ${pages}/rocmforge.1)
  # Debian has a folder of its own for zsh functions of packages.
  if(CMAKE_INSTALL_PREFIX STREQUAL "/usr" AND EXISTS /etc/debian_version)
    set(zsh_folder zsh/vendor-completions)
  else()
    set(zsh_folder zsh/site-functions)
  endif()
  install(FILES ${pages}/rocmforge.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT program)
  install(FILES ${pages}/rocmforge.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME rocmforge
          COMPONENT program)
  install(FILES ${pages}/_rocmforge DESTINATION ${CMAKE_INSTALL_DATADIR}/${zsh_folder} COMPONENT program)
  install(FILES ${pages}/rocmforge.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d COMPONENT program)
else()
  message(STATUS "No python3: the manual page and the completions are neither made nor installed")
endif()
