#pragma once

#include <string_view>

#include "weights/gguf_file.h"

namespace rocmforge {

/// The tensor with this name. Throws Error naming it when it is missing or has another shape.
const GgufTensor& expect_tensor(const GgufFile& file, std::string_view name, const Shape& shape);

}  // namespace rocmforge
