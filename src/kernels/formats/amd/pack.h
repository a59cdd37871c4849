#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/dtype.h"

namespace rocmforge::amd {

/// Bytes of a weight [n, k] as weight_layout.h says.
std::size_t packed_weight_bytes(DType type, std::int64_t n, std::int64_t k);

/// Writes tiles [begin, end) of a weight (weight_layout.h) from its rows [n, k] as the file stores them. `packed` is where
/// tile 0 goes; every byte of the tiles is written, with the last tile also the room after it.
void pack_tiles(DType type, const void* rows, std::int64_t n, std::int64_t k, std::int64_t begin, std::int64_t end,
                void* packed);

}  // namespace rocmforge::amd
