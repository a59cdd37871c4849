#include "kernels/formats/hopper/pack.h"

#include <cstring>

#include "base/error.h"
#include "kernels/formats/hopper/weight_layout.h"
#include "kernels/formats/pack_tiles.h"

namespace rocmforge::hopper {
namespace {

std::uint32_t load_word(const std::uint8_t* from) {
  std::uint32_t word = 0;
  std::memcpy(&word, from, 4);
  return word;
}
void store_word(std::uint8_t* to, std::uint32_t word) { std::memcpy(to, &word, 4); }

/// The scales of a row of a record.
void put_scales(WeightScales kind, const UnpackedRow& row, std::uint8_t* scales, std::uint8_t* super) {
  const auto& strips = row.strips;
  switch (kind) {
    case WeightScales::half:
      for (int block = 0; block < 4; ++block) {
        std::memcpy(scales + 2 * block, &strips[2 * block].scale, 2);
      }
      break;
    case WeightScales::exponent:
      for (int block = 0; block < 4; ++block) {
        scales[block] = strips[2 * block].scale_code;
      }
      break;
    case WeightScales::code_of_strip:
      for (int s = 0; s < 4; ++s) {
        for (int i = 0; i < 4; ++i) {  // block s of both groups
          scales[4 * s + i] = strips[8 * (i / 2) + 2 * s + i % 2].scale_code;
        }
      }
      std::memcpy(super, &row.scale, 2);
      break;
    case WeightScales::code_and_minimum:
      for (int j = 0; j < 4; ++j) {
        for (int i = 0; i < 2; ++i) {
          scales[4 * j + i] = strips[4 * j + 2 * i].scale_code;
          scales[4 * j + 2 + i] = strips[4 * j + 2 * i].minimum_code;
        }
      }
      std::memcpy(super, &row.scale, 2);
      std::memcpy(super + 2, &row.minimum, 2);
      break;
    default:
      fail_check("scales without a layout for Hopper");
  }
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

/// One row of a record; `columns` of it are in the file.
void put_row(const WeightTraits& traits, const WeightLayout& layout, UnpackedRow& unpacked, int columns, int row,
             std::uint8_t* record) {
  put_scales(traits.scales, unpacked, record + layout.scale_offset + row * row_scale_bytes(traits.scales),
             record + layout.super_offset + row * row_super_bytes(traits.scales));
  if (traits.code_bits == 8) {  // signed
    for (int i = 0; i < columns; ++i) {
      unpacked.codes[i] ^= 0x80;
    }
  }
  for (int group = 0; group < layout.elems / weight_group_elems; ++group) {
    const std::uint8_t* of_group = unpacked.codes + weight_group_elems * group;
    if (traits.code_bits == 8) {
      put_bytes(of_group, row, record + 2048 * group);
    } else {
      put_low(of_group, row, record + 1024 * group);
    }
    if (traits.high_bits == 1) {
      put_one_high(of_group, row, record + layout.high_offset + 256 * group);
    } else if (traits.high_bits == 2) {
      put_two_high(of_group, row, record + layout.high_offset + 512 * group);
    }
  }
}

}  // namespace

void pack_tiles(DType type, const void* rows, std::int64_t n, std::int64_t k, std::int64_t begin, std::int64_t end,
                void* packed) {
  check(has_weight_layout(type), "a format that is not repacked");
  const WeightTraits traits = weight_traits(weight_format(type));
  const WeightLayout layout = weight_layout(traits.format);
  gpu::pack_tiles({weight_tile_rows, layout.elems, layout.record_bytes, weight_tile_bytes(layout, k)},
                  {type, static_cast<const std::uint8_t*>(rows), n, k}, begin, end, static_cast<std::uint8_t*>(packed),
                  [&](UnpackedRow& unpacked, int columns, int row, std::uint8_t* record) {
                    put_row(traits, layout, unpacked, columns, row, record);
                  });
}

}  // namespace rocmforge::hopper
