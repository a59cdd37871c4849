#include "kernels/formats/hopper/pack.h"

#include <cstring>

#include "kernels/formats/hopper/weight_layout.h"
#include "kernels/formats/pack_tiles.h"
#include "tensor/quant/formats.h"

namespace rocmforge::hopper {
namespace {

constexpr int most_elems = 256;  ///< of a record

std::uint32_t load_word(const std::uint8_t* from) {
  std::uint32_t word = 0;
  std::memcpy(&word, from, 4);
  return word;
}
void store_word(std::uint8_t* to, std::uint32_t word) { std::memcpy(to, &word, 4); }

/// Where a row of a record has its scales.
struct RowScales {
  std::uint8_t* scales;
  std::uint8_t* super;
};

// put_scales(block, b, to): the scales of the file's block `b` of a record.
template <class Block>
void put_scales(const Block& block, int b, const RowScales& to) {
  std::memcpy(to.scales + 2 * b, &block.scale, 2);
}
void put_scales(const BlockMXFP4& block, int b, const RowScales& to) { to.scales[b] = block.exponent; }
void put_scales(const BlockQ6_K& block, int, const RowScales& to) {
  for (int s = 0; s < 4; ++s) {
    std::memcpy(to.scales + 4 * s, block.scales + 2 * s, 2);
    std::memcpy(to.scales + 4 * s + 2, block.scales + 8 + 2 * s, 2);
  }
  std::memcpy(to.super, &block.scale, 2);
}
/// Of Q4_K and Q5_K.
template <class Block>
requires requires(Block block) { block.minimum_code(0); }
void put_scales(const Block& block, int, const RowScales& to) {
  for (unsigned j = 0; j < 4; ++j) {
    to.scales[4 * j] = static_cast<std::uint8_t>(block.scale_code(2 * j));
    to.scales[4 * j + 1] = static_cast<std::uint8_t>(block.scale_code(2 * j + 1));
    to.scales[4 * j + 2] = static_cast<std::uint8_t>(block.minimum_code(2 * j));
    to.scales[4 * j + 3] = static_cast<std::uint8_t>(block.minimum_code(2 * j + 1));
  }
  std::memcpy(to.super, &block.scale, 2);
  std::memcpy(to.super + 2, &block.minimum_scale, 2);
}

// Codes of one row and group to their planes. `chunk` is c of weight_layout.h.
void put_low(const std::uint8_t* codes, int row, std::uint8_t* group) {
  for (int chunk = 0; chunk < 4; ++chunk) {
    for (int s = 0; s < 4; ++s) {
      const std::uint8_t* eight = codes + 32 * s + 8 * chunk;
      const std::uint32_t word = (load_word(eight) & 0x0f0f0f0fu) | (load_word(eight + 4) & 0x0f0f0f0fu) << 4;
      store_word(group + 64 * row + 16 * chunk + 4 * s, word);
    }
  }
}
void put_one_high(const std::uint8_t* codes, int row, std::uint8_t* group) {
  for (int chunk = 0; chunk < 4; ++chunk) {
    std::uint32_t word = 0;
    for (int i = 0; i < 8; ++i) {
      word |= (load_word(codes + 32 * (i / 2) + 8 * chunk + 4 * (i % 2)) >> 4 & 0x01010101u) << i;
    }
    store_word(group + 16 * row + 4 * chunk, word);
  }
}
void put_two_high(const std::uint8_t* codes, int row, std::uint8_t* group) {
  for (int chunk = 0; chunk < 4; ++chunk) {
    for (int j = 0; j < 2; ++j) {
      std::uint32_t word = 0;
      for (int i = 0; i < 4; ++i) {
        word |= (load_word(codes + 64 * j + 32 * (i / 2) + 8 * chunk + 4 * (i % 2)) >> 4 & 0x03030303u) << 2 * i;
      }
      store_word(group + 32 * row + 8 * chunk + 4 * j, word);
    }
  }
}
void put_bytes(const std::uint8_t* codes, int row, std::uint8_t* group) {
  for (int chunk = 0; chunk < 4; ++chunk) {
    for (int s = 0; s < 4; ++s) {
      std::memcpy(group + 1024 * (s / 2) + 64 * row + 16 * chunk + 8 * (s % 2), codes + 32 * s + 8 * chunk, 8);
    }
  }
}

/// Bytes of a row's scales in a record.
template <class Block>
constexpr int scale_row_bytes() {
  return Block::elems == 256 ? 16 : Block::dtype == DType::mxfp4 ? 4 : 8;
}
template <class Block>
constexpr int super_row_bytes() {
  return Block::dtype == DType::q6_k ? 2 : 4;
}

/// One row of a record; `columns` of it are in the file.
template <class Block>
void pack_row(const std::uint8_t* blocks, int columns, int row, std::uint8_t* record) {
  constexpr WeightLayout layout = weight_layout(weight_format(Block::dtype));
  std::uint8_t codes[most_elems] = {};
  const RowScales to{record + layout.scale_offset + row * scale_row_bytes<Block>(),
                     record + layout.super_offset + row * super_row_bytes<Block>()};
  for (int b = 0; b < columns / Block::elems; ++b) {
    Block block;
    std::memcpy(&block, blocks + b * sizeof(Block), sizeof(Block));
    unpack_codes(block, codes + b * Block::elems, 0);
    put_scales(block, b, to);
  }
  for (int group = 0; group < layout.elems / weight_group_elems; ++group) {
    const std::uint8_t* of_group = codes + weight_group_elems * group;
    if constexpr (Block::Low::bits == 8) {
      put_bytes(of_group, row, record + 2048 * group);
    } else {
      put_low(of_group, row, record + 1024 * group);
    }
    if constexpr (Block::High::bits == 1) {
      put_one_high(of_group, row, record + layout.high_offset + 256 * group);
    } else if constexpr (Block::High::bits == 2) {
      put_two_high(of_group, row, record + layout.high_offset + 512 * group);
    }
  }
}

}  // namespace

void pack_tiles(DType type, const void* rows, std::int64_t n, std::int64_t k, std::int64_t begin, std::int64_t end,
                void* packed) {
  gpu::visit_packed_format(type, [&]<class Block>() {
    constexpr WeightLayout layout = weight_layout(weight_format(Block::dtype));
    gpu::pack_tiles<Block>({weight_tile_rows, layout.elems, layout.record_bytes, weight_tile_bytes(layout, k)},
                           {static_cast<const std::uint8_t*>(rows), n, k}, begin, end, static_cast<std::uint8_t*>(packed),
                           pack_row<Block>);
  });
}

}  // namespace rocmforge::hopper
