#pragma once

#include <cstdint>

#include "kernels/formats/hopper/weight_layout.h"
#include "kernels/matmul/hopper/gate.h"

namespace rocmforge::hopper {

inline constexpr int most_tiles_parts = 4;

/// What becomes of a product y: out = y, out += y, out = activation(out) * y.
enum class TilesStore : std::int32_t { plain, add, gate };

/// One weight of a launch and where its product goes. All weights of a launch have one format, or the two of its kernel.
struct MatmulTilesPart {
  const std::uint8_t* weight;  ///< as weight_layout.h says
  const float* bias;           ///< [n] or null
  float* out;                  ///< [tokens, n], rows `stride` apart
  std::int64_t stride;
  std::int32_t n;
  std::int32_t first_tile;  ///< of the launch's tiles of rows: this part's are those up to the next part's first
  TilesStore store;
  Gate activation;      ///< of TilesStore::gate
  WeightFormat format;  ///< of the two of a kernel for two
  std::int32_t unused;
};

/// Activations as the tiles read them, written by matmul_tiles_convert: for each tile of `tile_tokens` tokens, for each 64
/// columns, a box [tile_tokens][64] of binary16 whose rows are swizzled by 128 bytes and whose columns stand in the order of
/// activation_element (matmul_dequantize.h). Columns from k on and tokens beyond the last are zero.
inline constexpr int tiles_box_columns = 64;

/// See matmul_tiles.h and matmul_few.h. Grid: work-groups that walk over the tiles.
struct MatmulTilesArgs {
  MatmulTilesPart parts[most_tiles_parts];
  const std::uint8_t* x;  ///< boxes of activations
  const float* x_scales;  ///< [tokens], factors of the products
  std::int32_t num_parts;
  std::int32_t records;  ///< of a row of weights
  std::int32_t x_boxes;  ///< of a tile of tokens: as many as the records need, or more
  std::int32_t tokens;
  std::int32_t row_tiles;  ///< of all parts; with a gate of one of the two
  std::int32_t token_tiles;
  Gate gate;  ///< not none: parts[0].out = activation(product of part 0) * product of part 1

  // For matmul_few.h and matmul_high, which cut k into segments.
  float*
      partials;  ///< [token_tiles][row_tiles][segments][sums of a tile]; of matmul_high [segments][row_tiles][token_tiles]
  std::uint32_t* arrivals;  ///< matmul_few.h: [token_tiles][row_tiles], zero before and after
  std::int32_t segments;
  std::int32_t segment_records;
  std::int32_t unused;
};

inline constexpr int few_segment_columns = 1024;
inline constexpr int warps_of_consumer = 4;    ///< a warpgroup
inline constexpr int tiles_consumers = 2;      ///< of matmul_tiles.h
inline constexpr int high_tile_consumers = 4;  ///< of its matmul_high

/// What a work-group computes: `consumers` warpgroups of `subtiles` x 64 rows each, times `tokens`.
struct TilesShape {
  int subtiles;
  int tokens;
  int consumers;
  [[nodiscard]] constexpr int rows() const { return consumers * subtiles * 64; }
  [[nodiscard]] constexpr int threads() const { return (consumers + 1) * 128; }
  [[nodiscard]] constexpr int box_bytes() const { return tokens * tiles_box_columns * 2; }

  // Arrivals that complete a phase of a barrier.
  static constexpr int full_arrivals = 1;                      ///< the warp that copies, and the bytes
  static constexpr int own_free_arrivals = warps_of_consumer;  ///< of what one consumer reads: each of its warps
  static constexpr int stored_arrivals = warps_of_consumer;    ///< matmul_few.h: each warp has stored its sums
  static constexpr int told_arrivals = 1;                      ///< matmul_few.h: the warp that counts
  [[nodiscard]] constexpr int free_arrivals() const { return consumers * warps_of_consumer; }  ///< of what all read
};

/// Sums of 64 rows are staged for the stores, so many tokens at a time, [token][row]. The padding keeps both directions free
/// of bank conflicts.
inline constexpr int stage_tokens = 16;
inline constexpr int stage_row_stride = 68;

constexpr WeightFormat larger_format(WeightFormat a, WeightFormat b) {
  return weight_layout(a).record_bytes < weight_layout(b).record_bytes ? b : a;
}
constexpr int boxes_per_record(WeightFormat format) { return weight_layout(format).elems / tiles_box_columns; }

/// Shared memory of a work-group: a ring of boxes of activations, one of records of all rows, one of the scales of a tile's
/// tokens, and their barriers. Scales have no barrier of their own: they come with a tile's first box, and boxes bound how
/// far they run ahead.
struct TilesRings {
  int boxes;
  int slots;
  int slot_bytes;
  int scales;
  int bytes;
};
/// A tile has a record of two boxes at least. The first box of a tile is copied once the box `boxes` before it is free. Its
/// tile and those after it are then in use, and so is the tile before it, whose last box is freed before its sums are
/// scaled: (boxes - 1) / 2 + 2 tiles where all are the shortest. With an odd number of boxes that is what there is.
inline constexpr int least_boxes_of_tile = 2;
constexpr int tiles_scales(int boxes) { return boxes / least_boxes_of_tile + 2; }
constexpr int tiles_scales_needed(int boxes) { return (boxes - 1) / least_boxes_of_tile + 2; }

constexpr TilesRings tiles_rings(const TilesShape& shape, WeightFormat format) {
  constexpr int most_bytes = 227 * 1024;
  const int stage_bytes = shape.consumers * stage_tokens * stage_row_stride * 4;
  TilesRings rings{};
  rings.slot_bytes = shape.rows() / weight_tile_rows * weight_layout(format).record_bytes;
  const int columns = weight_layout(format).elems;
  const auto bytes = [&](int boxes, int slots) {
    const int scales = tiles_scales(boxes) * shape.tokens * 4;
    const int used = boxes * (shape.box_bytes() + 16) + slots * (rings.slot_bytes + 16) + stage_bytes + scales;
    return 1024 + (used + 256 + 1023) / 1024 * 1024;
  };
  // Two records of weights and as many activations at least; then both grow, with equally many columns.
  rings.boxes = 4;
  rings.slots = 2;
  for (;;) {
    const bool fewer_columns = rings.slots * columns <= rings.boxes * tiles_box_columns;
    if (fewer_columns && rings.slots < 8 && bytes(rings.boxes, rings.slots + 1) <= most_bytes) {
      ++rings.slots;
    } else if (rings.boxes < 12 && bytes(rings.boxes + 1, rings.slots) <= most_bytes) {
      ++rings.boxes;
    } else if (rings.slots < 8 && bytes(rings.boxes, rings.slots + 1) <= most_bytes) {
      ++rings.slots;
    } else {
      break;
    }
  }
  rings.scales = tiles_scales(rings.boxes);
  rings.bytes = bytes(rings.boxes, rings.slots);
  return rings;
}

/// The shapes of the kernels of matmul_tiles.h.
inline constexpr TilesShape tiles_shapes[] = {
    {1, 32, tiles_consumers},     {1, 64, tiles_consumers},     {1, 128, tiles_consumers},   {1, 256, tiles_consumers},
    {1, 16, high_tile_consumers}, {1, 32, high_tile_consumers}, {1, 64, high_tile_consumers}};
constexpr bool scales_suffice() {
  for (const WeightFormat format : weight_formats) {
    for (const TilesShape& shape : tiles_shapes) {
      const TilesRings rings = tiles_rings(shape, format);
      if (boxes_per_record(format) < least_boxes_of_tile || rings.scales < tiles_scales_needed(rings.boxes)) {
        return false;
      }
    }
  }
  return true;
}
static_assert(scales_suffice(), "scales would be overwritten before they are read");

/// The tile of a work-group of matmul_few.h for up to that many tokens (16, 32 or 64), with as many consumers as fit: two
/// records of each in shared memory, their sums in registers.
constexpr TilesShape few_shape(int tokens, bool gated) { return {gated ? 2 : 1, tokens, gated ? 2 : 3}; }
/// Most tokens of a gated tile: records of 64 rows of gate and up, beside the activations.
constexpr int most_gated_few_tokens(WeightFormat format) { return format == WeightFormat::q6_k ? 32 : 64; }

/// Shared memory of a work-group of matmul_few.h: a segment's activations, a ring of records for each consumer's rows.
struct FewRings {
  int boxes;
  int slots;
  int slot_bytes;
  int bytes;
};
constexpr FewRings few_rings(const TilesShape& shape, WeightFormat format) {
  constexpr int most_bytes = 226 * 1024;
  FewRings rings{};
  rings.boxes = few_segment_columns / tiles_box_columns;
  rings.slot_bytes = shape.subtiles * 4 * weight_layout(format).record_bytes;
  const int rest = most_bytes - 3072 - rings.boxes * shape.box_bytes();
  rings.slots = rest / (shape.consumers * (rings.slot_bytes + 16));
  rings.slots = rings.slots > 8 ? 8 : rings.slots;
  rings.bytes = 3072 + rings.boxes * shape.box_bytes() + shape.consumers * rings.slots * (rings.slot_bytes + 16);
  return rings;
}

/// A work-group's part of one tile of tokens and segment of matmul_few.h: tiles of rows [begin, end), of which a consumer
/// takes every `consumers`-th from its own first one on.
struct FewSpan {
  int token_tile;
  int segment;
  int begin;
  int end;
  int first_record;
  int end_record;
  bool last;
};

/// The spans of a work-group, one after another. Work-groups have equal shares of the tiles; one that has none must not
/// count segments, because no consumer would ever tell it the end.
struct FewSpans {
  int at;
  int end;

  constexpr FewSpans(const MatmulTilesArgs& args, unsigned group, unsigned groups)
      : at(bound(args, group, groups)), end(bound(args, group + 1, groups)) {}

  [[nodiscard]] constexpr bool any() const { return at < end; }
  constexpr FewSpan next(const MatmulTilesArgs& args) {
    const int pair = at / args.row_tiles;
    FewSpan span{pair / args.segments, pair % args.segments, at - pair * args.row_tiles, 0, 0, 0, false};
    const int rest = end - pair * args.row_tiles;
    span.end = args.row_tiles < rest ? args.row_tiles : rest;
    at += span.end - span.begin;
    span.last = at == end;
    span.first_record = span.segment * args.segment_records;
    const int end_record = span.first_record + args.segment_records;
    span.end_record = args.records < end_record ? args.records : end_record;
    return span;
  }

 private:
  static constexpr int bound(const MatmulTilesArgs& args, unsigned group, unsigned groups) {
    // 32 bits, because each warp divides before it begins. The launch checks that they suffice.
    const auto total = static_cast<unsigned>(args.token_tiles * args.segments * args.row_tiles);
    return static_cast<int>(total * group / groups);
  }
};

/// Threads of matmul_add_segments, and of a consumer that left it its sums.
inline constexpr int add_segments_threads = 256;
inline constexpr int add_segments_consumer = warps_of_consumer * 32;

/// Converts activations into boxes. Grid: tokens, rounded up to whole tiles.
struct TilesConvertArgs {
  const float* x;  ///< [tokens, k], rows x_stride apart
  std::int64_t x_stride;
  const float* norm_weight;  ///< [k]: rows are normalised by their root mean square first; or null
  std::uint8_t* boxes;
  float* scales;  ///< [whole tiles of tokens]: x = row * scale, a power of two
  float norm_epsilon;
  std::int32_t k;
  std::int32_t padded_k;  ///< whole boxes, as many as the records of all formats need
  std::int32_t tokens;
  std::int32_t tile_tokens;
  std::int32_t x_aligned;   ///< rows of x start at 16-byte boundaries
  std::uint32_t* arrivals;  ///< [num_arrivals]: becomes zero, for matmul_few.h
  std::int32_t num_arrivals;
  std::int32_t unused;
};
inline constexpr int tiles_convert_threads = 512;
inline constexpr int tiles_convert_short = tiles_convert_threads * 8;  ///< most columns of a row that is read once
inline constexpr int tiles_convert_long_threads = 1024;

}  // namespace rocmforge::hopper
