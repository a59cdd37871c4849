#include "kernels/formats/unpacked_row.h"

#include <algorithm>
#include <cstring>
#include <iterator>

#include "base/error.h"
#include "kernels/formats/unpack_block.h"
#include "tensor/quant/formats.h"

namespace rocmforge {

void unpack_row(DType type, const std::uint8_t* blocks, int count, UnpackedRow& row) {
  std::fill(row.codes + count, std::end(row.codes), std::uint8_t{0});
  std::fill(row.strips + count / UnpackedRow::strip_columns, std::end(row.strips), UnpackedRow::Strip{});
  row.scale = row.minimum = half{};
  const bool known = Formats::visit(type, [&]<class Block>(Block*) {
    if constexpr (Block::elems > 1) {
      constexpr int elems = static_cast<int>(Block::elems);
      for (int column = 0; column < count; column += elems, blocks += sizeof(Block)) {
        Block block;
        std::memcpy(&block, blocks, sizeof block);
        unpack_block(block, column, row);
      }
    }
  });
  check(known, "a type without a block");
}

}  // namespace rocmforge
