#pragma once

// What is read of a piece (weight_layout.h) and how that becomes numbers: PackedFormat<format>.
//   Raw                      a piece, untouched, so that loads can run ahead of their use
//   load(record, lane, ..)   `record`: where the wave's records begin; `lane`: what a lane adds to that
//   code_word(raw, part, w)  four codes, as signed bytes
//   affine(raw)              value = scale[i] * code + offset[i] for elements 16 i to 16 i + 15
// `halves`: whether the two scales differ. `has_offset`: whether offsets are other than 0.

#include "kernels/amd/tile.h"
#include "kernels/amd/weight_layout.h"
#include "kernels/gpu/formats.h"
#include "kernels/gpu/matmul_bytes.h"

namespace rocmforge::amd {

struct PieceAffine {
  float scale[2];
  float offset[2];
};

/// Which of a record's pieces a lane takes first; the second is half a record behind it.
struct LanePlace {
  unsigned piece;
  unsigned record;  ///< bytes to the record that the lane reads: waves of 64 lanes read two
};

template <WeightFormat format>
struct PackedFormat {
  static constexpr WeightLayout layout = weight_layout(format);
  static constexpr bool has_super = layout.record_bytes > layout.super_offset;
  static constexpr bool is_bytes = format == WeightFormat::q8_0;
  static constexpr bool halves = format == WeightFormat::q6_k;
  static constexpr bool has_offset = format != WeightFormat::q8_0 && format != WeightFormat::mxfp4;
  static constexpr int high_words = layout.high_bytes / 4;

  struct Raw {
    uint4 quants[is_bytes ? 2 : 1];
    std::uint32_t high[high_words > 0 ? high_words : 1];
    std::uint32_t super;
    std::uint16_t scales;
  };

  /// Piece lane.piece of the record, and `behind` pieces on.
  __device__ static Raw load(GlobalBytes record, const LanePlace& lane, int behind) {
    Raw raw;
    raw.quants[0] = load_at<uint4>(record, lane.record + 16 * lane.piece, 16 * behind);
    if constexpr (is_bytes) {
      raw.quants[1] = load_at<uint4>(record, lane.record + 16 * lane.piece, 16 * behind + code_plane_bytes);
    }
    if constexpr (high_words == 2) {
      const auto words = load_at<uint2>(record, lane.record + 8 * lane.piece, layout.high_offset + 8 * behind);
      raw.high[0] = words.x;
      raw.high[1] = words.y;
    } else if constexpr (high_words == 1) {
      raw.high[0] = load_at<std::uint32_t>(record, lane.record + 4 * lane.piece, layout.high_offset + 4 * behind);
    }
    raw.scales = load_at<std::uint16_t>(record, lane.record + 2 * lane.piece, layout.scale_offset + 2 * behind);
    if constexpr (has_super) {
      raw.super = load_at<std::uint32_t>(record, lane.record + lane.piece / record_pieces * 4,
                                         layout.super_offset + behind / record_pieces * 4);
    }
    return raw;
  }

  /// Codes 16 part + 4 w to 16 part + 4 w + 3. `part` need not be a constant.
  __device__ static std::uint32_t code_word(const Raw& raw, int part, int w) {
    const auto word = [w](const uint4& four) { return w == 0 ? four.x : w == 1 ? four.y : w == 2 ? four.z : four.w; };
    if constexpr (is_bytes) {
      return part == 0 ? word(raw.quants[0]) : word(raw.quants[1]);
    } else {
      const std::uint32_t code = word(raw.quants[0]) >> 4 * part & 0x0f0f0f0fu;
      if constexpr (format == WeightFormat::mxfp4) {
        constexpr gpu::SignedTable table = gpu::make_signed_table(mxfp4_values);
        return gpu::look_up(table, code);
      } else if constexpr (high_words == 1) {
        return code | (raw.high[0] >> (4 * part + w) & 0x01010101u) << 4;
      } else if constexpr (high_words == 2) {
        return code | ((part == 0 ? raw.high[0] : raw.high[1]) >> 2 * w & 0x03030303u) << 4;
      } else {
        return code;
      }
    }
  }

  __device__ static PieceAffine affine(const Raw& raw) {
    const std::uint32_t scales = raw.scales;
    if constexpr (format == WeightFormat::mxfp4) {
      const float scale = mxfp4_half_scale(static_cast<std::uint8_t>(scales));
      return {{scale, scale}, {0.0f, 0.0f}};
    } else if constexpr (format == WeightFormat::q6_k) {
      const float super = gpu::half_of_word(raw.super, 0);
      const float low = super * static_cast<float>(static_cast<std::int8_t>(scales & 255u));
      const float high = super * static_cast<float>(static_cast<std::int8_t>(scales >> 8));
      return {{low, high}, {-32.0f * low, -32.0f * high}};
    } else if constexpr (has_super) {
      const float scale = gpu::half_of_word(raw.super, 0) * static_cast<float>(scales & 255u);
      const float offset = -gpu::half_of_word(raw.super, 1) * static_cast<float>(scales >> 8);
      return {{scale, scale}, {offset, offset}};
    } else {
      const float scale = gpu::half_of_word(scales, 0);
      const float offset = format == WeightFormat::q4_0   ? -8.0f * scale
                           : format == WeightFormat::q5_0 ? -16.0f * scale
                                                          : 0.0f;
      return {{scale, scale}, {offset, offset}};
    }
  }
};

}  // namespace rocmforge::amd
