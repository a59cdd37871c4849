#pragma once

#include <string>

#include "weights/gguf_file.h"

namespace rocmforge {

/// 64 hex digits that differ between files with other keys, scalar values, tensors or weights. Of each tensor only its start,
/// its middle and its end are read, so that a large file takes no longer than its list of tensors.
std::string fingerprint(const GgufFile& file);

}  // namespace rocmforge
