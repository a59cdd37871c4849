#include "tensor/quant/dequantize.h"

#include <string>

#include "base/error.h"
#include "tensor/quant/formats.h"

namespace rocmforge {

void dequantize_row(DType type, const void* row, float* out, std::int64_t elems) {
  const bool known = Formats::visit(type, [&]<class Block>(Block*) {
    check(elems >= 0 && elems % Block::elems == 0, "a row must hold whole blocks");
    const auto* blocks = static_cast<const Block*>(row);
    for (std::int64_t i = 0; i < elems / Block::elems; ++i) {
      dequantize(blocks[i], out + i * Block::elems);
    }
  });
  if (!known) {
    throw Error("tensors of type " + std::string(name(type)) + " cannot be computed with yet");
  }
}

}  // namespace rocmforge
