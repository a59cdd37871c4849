#pragma once

#include <string>
#include <string_view>

#include "weights/gguf_file.h"

namespace rocmforge {

/// "blk.7.attn_output"
std::string block_tensor(int index, std::string_view part);

/// Whether the tensor has this shape. Dimensions of 1 do not matter: converters write some of them, and quantisers drop
/// those that GGUF lists last.
bool has_shape(const GgufTensor& tensor, const Shape& shape);

/// The tensor with this name. Throws Error naming it when it is missing or has another shape.
const GgufTensor& expect_tensor(const GgufFile& file, std::string_view name, const Shape& shape);

}  // namespace rocmforge
