#pragma once

// The loads of a piece (weight_layout.h) and its conversion to numbers: PackedFormat<format>.
//   Raw                      the bytes of a piece, unconverted, so that loads can run ahead of their use
//   load(record, lane, ..)   `record`: where the wave's records begin; `lane`: the lane's offset from there
//   code_word(raw, part, w)  four codes, as signed bytes
//   affine(raw)              value = scale[i] * code + offset[i] for elements 16 i to 16 i + 15
// `halves`: whether the two scales differ. `has_offset`: whether offsets are other than 0. `is_signed`: whether codes may be
// negative; they are below 128 else.

#include <type_traits>

#include "kernels/formats/amd/weight_layout.h"
#include "kernels/formats/formats.h"
#include "kernels/matmul/amd/matvec_args.h"
#include "kernels/tile/amd/tile.h"
#include "kernels/tile/matmul_bytes.h"

namespace rocmforge::amd {

struct PieceAffine {
  float scale[2];
  float offset[2];
};

/// The piece of a record that a lane takes first; its second piece is half a record further on.
struct LanePlace {
  unsigned piece;
  unsigned record;  ///< bytes to the record that the lane reads: waves of 64 lanes read two
};

template <WeightFormat format>
struct PackedFormat {
  static constexpr WeightLayout layout = weight_layout(format);
  static constexpr bool has_super = layout.super_bytes > 0;
  static constexpr bool is_bytes = layout.code_bytes == 32;
  static constexpr bool two_bits = layout.code_bytes == 8;
  static constexpr bool has_iq4_table = format == WeightFormat::iq4_nl || format == WeightFormat::iq4_xs;
  static constexpr bool has_table_of_16 =
      has_iq4_table || format == WeightFormat::mxfp4 || format == WeightFormat::nvfp4 || format == WeightFormat::iq3;
  static constexpr bool is_signed = is_bytes || has_table_of_16 || format == WeightFormat::iq1_iq2;
  static constexpr bool halves = format == WeightFormat::q6_k || format == WeightFormat::q3_k ||
                                 format == WeightFormat::q2_k || format == WeightFormat::nvfp4 ||
                                 format == WeightFormat::iq1_iq2;
  static constexpr bool has_offset = !is_signed;
  static constexpr int high_words = layout.high_bytes / 4;

  using Codes = std::conditional_t<two_bits, uint2, uint4>;
  using Scales = std::conditional_t<layout.scale_bytes == 1, std::uint8_t,
                                    std::conditional_t<layout.scale_bytes == 2, std::uint16_t, std::uint32_t>>;
  using Super = std::conditional_t<layout.super_bytes == 2, std::uint16_t, std::uint32_t>;

  struct Raw {
    Codes quants[is_bytes ? 2 : 1];
    std::uint32_t high[high_words > 0 ? high_words : 1];
    Super super;
    Scales scales;
  };

  /// The piece that is `behind` pieces after piece lane.piece of the record.
  __device__ static Raw load(GlobalBytes record, const LanePlace& lane, int behind) {
    Raw raw;
    constexpr int code_bytes = sizeof(Codes);
    raw.quants[0] = load_at<Codes>(record, lane.record + code_bytes * lane.piece, code_bytes * behind);
    if constexpr (is_bytes) {
      raw.quants[1] = load_at<Codes>(record, lane.record + code_bytes * lane.piece, code_bytes * behind + code_plane_bytes);
    }
    if constexpr (high_words == 2) {
      const auto words = load_at<uint2>(record, lane.record + 8 * lane.piece, layout.high_offset + 8 * behind);
      raw.high[0] = words.x;
      raw.high[1] = words.y;
    } else if constexpr (high_words == 1) {
      raw.high[0] = load_at<std::uint32_t>(record, lane.record + 4 * lane.piece, layout.high_offset + 4 * behind);
    }
    raw.scales = load_at<Scales>(record, lane.record + layout.scale_bytes * lane.piece,
                                 layout.scale_offset + layout.scale_bytes * behind);
    if constexpr (has_super) {
      raw.super = load_at<Super>(record, lane.record + lane.piece / record_pieces * layout.super_bytes,
                                 layout.super_offset + behind / record_pieces * layout.super_bytes);
    }
    return raw;
  }

  /// Codes 16 part + 4 w to 16 part + 4 w + 3. `part` need not be a constant.
  __device__ __forceinline__ static std::uint32_t code_word(const Raw& raw, int part, int w) {
    const auto word = [w](const uint4& four) { return w == 0 ? four.x : w == 1 ? four.y : w == 2 ? four.z : four.w; };
    if constexpr (is_bytes) {
      return part == 0 ? word(raw.quants[0]) : word(raw.quants[1]);
    } else if constexpr (two_bits) {
      const std::uint32_t words[2] = {raw.quants[0].x, raw.quants[0].y};  // values: a choice of members takes memory
      const std::uint32_t code = (part == 0 ? words[0] : words[1]) >> 2 * w & 0x03030303u;
      if constexpr (high_words == 1) {
        const std::uint32_t whole = code | (raw.high[0] >> (4 * part + w) & 0x01010101u) << 2;
        if constexpr (format == WeightFormat::iq1_iq2) {
          constexpr std::uint32_t words[4] = {table_word(iq1_values, 0), table_word(iq1_values, 4),
                                              table_word(iq2_values, 0), table_word(iq2_values, 4)};
          const bool is_iq1 = raw.super >= iq1_flag;
          return gpu::select_bytes(is_iq1 ? words[1] : words[3], is_iq1 ? words[0] : words[2], whole);
        } else {
          return whole;
        }
      } else {
        return code;
      }
    } else {
      const std::uint32_t code = word(raw.quants[0]) >> 4 * part & 0x0f0f0f0fu;
      if constexpr (format == WeightFormat::iq3) {
        gpu::SignedTable table = gpu::make_signed_table(iq3_values);
        const std::uint32_t one = static_cast<std::uint32_t>(raw.scales / iq3_xxs_flag) << 24;
        table.words[1] += one;
        table.words[3] -= one;
        return amd::look_up(table, code);
      } else if constexpr (has_table_of_16) {
        constexpr gpu::SignedTable table = gpu::make_signed_table(has_iq4_table ? iq4_values : mxfp4_values);
        return amd::look_up(table, code);
      } else if constexpr (high_words == 1) {
        return code | (raw.high[0] >> (4 * part + w) & 0x01010101u) << 4;
      } else if constexpr (high_words == 2) {
        return code | ((part == 0 ? raw.high[0] : raw.high[1]) >> 2 * w & 0x03030303u) << 4;
      } else {
        return code;
      }
    }
  }

  /// Entries `first` to `first + 3`.
  static constexpr std::uint32_t table_word(const std::int8_t (&values)[8], int first) {
    std::uint32_t word = 0;
    for (int i = 0; i < 4; ++i) {
      word |= static_cast<std::uint32_t>(static_cast<std::uint8_t>(values[first + i])) << 8 * i;
    }
    return word;
  }

  __device__ static PieceAffine affine(const Raw& raw) {
    const std::uint32_t scales = raw.scales;
    if constexpr (format == WeightFormat::mxfp4) {
      const float scale = mxfp4_half_scale(static_cast<std::uint8_t>(scales));
      return {{scale, scale}, {0.0f, 0.0f}};
    } else if constexpr (format == WeightFormat::nvfp4) {
      // As a binary16 the bits of an E4M3 number are 2^-8 of it, and mxfp4_values are doubled.
      const std::uint32_t halves = (scales & 0x00ffu) << 7 | (scales & 0xff00u) << 15;
      return {{128.0f * gpu::half_of_word(halves, 0), 128.0f * gpu::half_of_word(halves, 1)}, {0.0f, 0.0f}};
    } else if constexpr (format == WeightFormat::q6_k || format == WeightFormat::q3_k) {
      const float super = gpu::half_of_word(raw.super, 0);
      const float low = super * static_cast<float>(static_cast<std::int8_t>(scales & 255u));
      const float high = super * static_cast<float>(static_cast<std::int8_t>(scales >> 8));
      constexpr float zero = format == WeightFormat::q6_k ? 32.0f : 4.0f;
      return {{low, high}, {-zero * low, -zero * high}};
    } else if constexpr (format == WeightFormat::q2_k) {
      const float super = gpu::half_of_word(raw.super, 0);
      const float minimum = -gpu::half_of_word(raw.super, 1);
      return {{super * static_cast<float>(scales & 15u), super * static_cast<float>(scales >> 8 & 15u)},
              {minimum * static_cast<float>(scales >> 4 & 15u), minimum * static_cast<float>(scales >> 12)}};
    } else if constexpr (format == WeightFormat::iq1_iq2) {
      const float super = 0.125f * gpu::half_of_word(raw.super % iq1_flag, 0);
      return {{super * static_cast<float>(2 * (scales & 15u) + 1), super * static_cast<float>(2 * (scales >> 4) + 1)},
              {0.0f, 0.0f}};
    } else if constexpr (format == WeightFormat::iq3) {
      const float scale = 0.5f * gpu::half_of_word(raw.super, 0) * static_cast<float>(scales % iq3_xxs_flag);
      return {{scale, scale}, {0.0f, 0.0f}};
    } else if constexpr (format == WeightFormat::iq4_xs) {
      const float scale = gpu::half_of_word(raw.super, 0) * static_cast<float>(static_cast<std::int8_t>(scales));
      return {{scale, scale}, {0.0f, 0.0f}};
    } else if constexpr (layout.scale_bytes == 4) {
      const float scale = gpu::half_of_word(scales, 0);
      const float offset = gpu::half_of_word(scales, 1);
      return {{scale, scale}, {offset, offset}};
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

/// Calls body.operator()<format>() for a format that is known at run time, inlined; nothing where the way does not serve it.
template <MatvecWay way, class Body>
__device__ __forceinline__ void visit_weight_format(WeightFormat format, const Body& body) {
  switch (format) {
#define ROCMFORGE_AMD_VISIT(name)                     \
  case WeightFormat::name:                            \
    if constexpr (serves(way, WeightFormat::name)) {  \
      body.template operator()<WeightFormat::name>(); \
    }                                                 \
    return;
    ROCMFORGE_AMD_FORMATS(ROCMFORGE_AMD_VISIT)
#undef ROCMFORGE_AMD_VISIT
    default:
      return;
  }
}

}  // namespace rocmforge::amd
