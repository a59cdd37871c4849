# Headers that most files include, parsed once for all targets of the same flags. tools/checks/check_includes.py checks that each
# file includes the ones it uses. -DROCMFORGE_PRECOMPILE_LIBRARIES=OFF turns precompilation off.
option(ROCMFORGE_PRECOMPILE_LIBRARIES "Precompile the headers that the libraries share" ON)
set(ROCMFORGE_COMMON_HEADERS <algorithm> <array> <atomic> <chrono> <cmath> <cstdint> <filesystem> <functional> <map> <memory> <mutex>
                             <optional> <span> <string> <string_view> <thread> <typeindex> <unordered_map> <utility> <vector>
                             <fmt/format.h>)

# rocmforge_precompile(OWNER [HEADERS header...] [REUSED_BY target...]): the common headers and `header`s for OWNER and for targets
# that have its flags. They may have other macros, but must have the same optimisation level: with another level GCC uses the
# header and may crash.
function(rocmforge_precompile owner)
  cmake_parse_arguments(PRECOMPILE "" "" "HEADERS;REUSED_BY" ${ARGN})
  target_precompile_headers(${owner} PRIVATE ${ROCMFORGE_COMMON_HEADERS} ${PRECOMPILE_HEADERS})
  foreach(target IN LISTS PRECOMPILE_REUSED_BY)
    target_precompile_headers(${target} REUSE_FROM ${owner})
  endforeach()
endfunction()

# As rocmforge_precompile, for libraries of src/.
function(rocmforge_precompile_library)
  if(ROCMFORGE_PRECOMPILE_LIBRARIES)
    rocmforge_precompile(${ARGN})
  endif()
endfunction()

# rocmforge_precompile_text(TARGET...): the headers for reading and writing JSON, for targets optimised by
# rocmforge_optimise_little. The first target that calls it owns the precompiled header.
function(rocmforge_precompile_text)
  foreach(target IN LISTS ARGN)
    get_property(owner GLOBAL PROPERTY ROCMFORGE_TEXT_HEADERS)
    if(owner)
      target_precompile_headers(${target} REUSE_FROM ${owner})
    else()
      rocmforge_precompile(${target} HEADERS ${PROJECT_SOURCE_DIR}/src/base/json.h)
      set_property(GLOBAL PROPERTY ROCMFORGE_TEXT_HEADERS ${target})
    endif()
  endforeach()
endfunction()
