#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/dtype.h"

namespace rocmforge::amd {

/// Bytes of a weight [n, k] in the layout of weight_layout.h.
std::size_t packed_weight_bytes(DType type, std::int64_t n, std::int64_t k);

/// Writes tiles [begin, end) of a weight (weight_layout.h) from its rows [n, k] as the file stores them. Tile 0 would go to
/// `packed`. Every byte of the tiles is written, with the last tile the room after it too.
void pack_tiles(DType type, const void* rows, std::int64_t n, std::int64_t k, std::int64_t begin, std::int64_t end,
                void* packed);

}  // namespace rocmforge::amd
