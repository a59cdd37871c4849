#pragma once

// Packed weights (weight_layout.h) as strips for the matrix tiles of gpu/matmul.h: a unit is a piece of 32 columns.

#include "kernels/amd/matvec_formats.h"
#include "kernels/gpu/matmul.h"

namespace rocmforge::amd {

/// In place of a block.
template <WeightFormat format>
struct Packed {};

}  // namespace rocmforge::amd

namespace rocmforge::gpu {

template <amd::WeightFormat format>
struct WeightStrips<amd::Packed<format>> {
  using Format = amd::PackedFormat<format>;
  static constexpr int parts = 2;
  static constexpr bool has_offset = Format::has_offset;
  using Raw = typename Format::Raw;

  __device__ static int unit_of(int strip_index) { return strip_index >> 1; }
  __device__ static int part_of(int strip_index) { return strip_index & 1; }

  /// Unit `unit` of row `row`; part.row_bytes is what a tile of rows takes.
  __device__ static Raw load_row(const MatmulPart& part, int row, int unit) {
    constexpr int rows = amd::weight_tile_rows;
    const std::uint8_t* record = part.weight + row / rows * part.row_bytes +
                                 static_cast<std::int64_t>(unit / amd::record_pieces) * Format::layout.record_bytes;
    const auto piece = static_cast<unsigned>(row % rows * amd::record_pieces + unit % amd::record_pieces);
    return Format::load((amd::GlobalBytes)record, {piece, 0}, 0);
  }
  __device__ static Affine affine(const Raw& raw, int part) {
    const amd::PieceAffine affine = Format::affine(raw);
    return part == 0 ? Affine{affine.scale[0], affine.offset[0]} : Affine{affine.scale[1], affine.offset[1]};
  }
  __device__ static void values(const Raw& raw, int part, int w, float* out) {
    four_signed(Format::code_word(raw, part, w), out);
  }
};

/// Q8_0's pieces have two planes of codes: a strip is a unit.
template <>
struct WeightStrips<amd::Packed<amd::WeightFormat::q8_0>> : SingleStrips {
  struct Raw {
    uint4 quants;
    std::uint16_t scale;
  };
  __device__ static Raw load_row(const MatmulPart& part, int row, int unit) {
    using Format = amd::PackedFormat<amd::WeightFormat::q8_0>;
    constexpr int rows = amd::weight_tile_rows;
    const int piece = row % rows * amd::record_pieces + unit / 2 % amd::record_pieces;
    const std::uint8_t* record = part.weight + row / rows * part.row_bytes +
                                 static_cast<std::int64_t>(unit / 2 / amd::record_pieces) * Format::layout.record_bytes;
    return {*reinterpret_cast<const uint4*>(record + unit % 2 * amd::code_plane_bytes + 16 * piece),
            *reinterpret_cast<const std::uint16_t*>(record + Format::layout.scale_offset + 2 * piece)};
  }
  __device__ static Affine affine(const Raw& raw, int) { return {half_of_word(raw.scale, 0), 0.0f}; }
  __device__ static void values(const Raw& raw, int, int w, float* out) {
    four_signed(w == 0 ? raw.quants.x : w == 1 ? raw.quants.y : w == 2 ? raw.quants.z : raw.quants.w, out);
  }
};

}  // namespace rocmforge::gpu
