# cmake -D FOLDER=... -D SOURCES=... -D OUTPUT=... -P kernel_stamp.cmake: writes the source with kernel_stamp(), the first 16 digits
# of the SHA-256 of a line "NAME SHA-256" for each source.
set(lines "")
foreach(source IN LISTS SOURCES)
  file(SHA256 ${FOLDER}/${source} digest)
  string(APPEND lines "${source} ${digest}\n")
endforeach()
string(SHA256 stamp "${lines}")
string(SUBSTRING ${stamp} 0 16 stamp)
file(WRITE ${OUTPUT} "\
#include \"device/embedded_kernels.h\"

namespace rocmforge {

std::string_view kernel_stamp() { return \"${stamp}\"; }

}  // namespace rocmforge
")
