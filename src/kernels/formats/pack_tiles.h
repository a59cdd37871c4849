#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "base/error.h"
#include "kernels/formats/unpacked_row.h"

// Weights in the layout of a family of kernels: tiles of rows, each a sequence of records along k. The family's
// weight_layout.h defines the content of the records.

namespace rocmforge::gpu {

/// The sizes of a family's layout of one format.
struct PackedTile {
  std::int64_t rows;
  std::int64_t record_elems;  ///< columns
  std::int64_t record_bytes;
  std::int64_t bytes;            ///< of a tile
  std::int64_t bytes_after = 0;  ///< of padding after the last tile
};

/// Rows [n, k] as the file stores them.
struct FileRows {
  DType type;
  const std::uint8_t* bytes;
  std::int64_t n;
  std::int64_t k;
};

/// Tiles [begin, end) of `rows`, zeroed and then filled by put_row(unpacked, columns, row, record): `columns` columns of row
/// `row` of the tile into the record at `record`. Tile 0 goes to `packed`.
template <class PutRow>
void pack_tiles(const PackedTile& tile, const FileRows& rows, std::int64_t begin, std::int64_t end, std::uint8_t* packed,
                const PutRow& put_row) {
  const auto stride = static_cast<std::int64_t>(row_bytes(rows.type, rows.k));
  const auto record_stride = static_cast<std::int64_t>(row_bytes(rows.type, tile.record_elems));
  UnpackedRow unpacked;
  for (std::int64_t t = begin; t < end; ++t) {
    std::uint8_t* to = packed + t * tile.bytes;
    const std::int64_t first = t * tile.rows;
    const bool last = first + tile.rows >= rows.n;
    std::memset(to, 0, static_cast<std::size_t>(tile.bytes + (last ? tile.bytes_after : 0)));
    for (std::int64_t row = 0; row < std::min(tile.rows, rows.n - first); ++row) {
      const std::uint8_t* blocks = rows.bytes + (first + row) * stride;
      std::uint8_t* record = to;
      for (std::int64_t column = 0; column < rows.k; column += tile.record_elems, blocks += record_stride) {
        const auto columns = static_cast<int>(std::min(tile.record_elems, rows.k - column));
        unpack_row(rows.type, blocks, columns, unpacked);
        put_row(unpacked, columns, static_cast<int>(row), record);
        record += tile.record_bytes;
      }
    }
  }
}

}  // namespace rocmforge::gpu
