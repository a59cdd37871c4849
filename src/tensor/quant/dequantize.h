#pragma once

#include <cstdint>

#include "tensor/dtype.h"

namespace rocmforge {

/// Writes the `elems` values of `row`, stored as `type`, to `out`. The floats are bit for bit those of the `gguf` Python
/// package. `elems` must be a multiple of the block length. Throws Error with the name of a type that has no dequantisation.
void dequantize_row(DType type, const void* row, float* out, std::int64_t elems);

}  // namespace rocmforge
