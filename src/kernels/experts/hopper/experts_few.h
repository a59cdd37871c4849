#pragma once

// Products of few slots of each expert, sorted by expert: a weight is read once for up to 8 slots. A warp has 16 rows and
// all of k, or half of it: units come by bulk copies into a ring of its own. A work-group walks over its share of the tiles
// of slots and groups of rows, so that weights of the next ones are in flight while one is finished.
//
// Activations are codes. Where a warp has all of k, a row's sums are those of experts_vectors.h, bit for bit, and a tile
// with few slots uses the same instructions as that many tokens in experts_vectors.h.

#include "kernels/experts/hopper/experts_activations.h"
#include "kernels/experts/hopper/experts_finish.h"
#include "kernels/tile/activation.h"
#include "kernels/tile/hopper/barrier.h"
#include "kernels/tile/hopper/copy.h"
#include "kernels/tile/hopper/mma.h"
#include "kernels/tile/hopper/shared.h"
#include "kernels/tile/launch_order.h"

namespace rocmforge::hopper {

/// A lane's sums of the first `tokens` slots of a tile: 1, 2, 4 or 8.
template <WeightFormat format, int tokens>
class FewSums {
 public:
  static constexpr int count = tokens == 8 ? 4 : 2;

  __device__ FewSums(const ExpertFewArgs& args, const std::uint8_t* x, int lane)
      : x_(activations_of(x, matvec_shared(few_slots, args.padded_columns, 0, 0), 0)), lane_(lane) {}

  __device__ static int slot_of(int sum, int lane) { return sum / 2 * 4 + lane % 4 * tokens_of_operand(tokens) / 4; }
  __device__ static int row_of(int sum, int lane) { return lane / 4 + sum % 2 * 8; }

  __device__ void add_unit(const std::uint8_t* unit, int index, int groups) {
    RawStep<format, tokens> raw;
    raw.load(unit, groups, lane_);
    add_step<true>(raw, x_, index, lane_, sums_);
  }

  __device__ void take(float (&sums)[count]) {
#pragma unroll
    for (int i = 0; i < count; ++i) {
      sums[i] = row_sum<tokens>(sums_, i / 2, i % 2) * operand_scale(format);
    }
#pragma unroll
    for (float& sum : sums_) {
      sum = 0.0f;
    }
  }

 private:
  Activations x_;
  int lane_;
  float sums_[2 * tokens] = {};
};

/// The order of a warp's units of a row. Of all units: n, n + 8 .. for n = 0 to 7, each of which is a partial sum as in
/// matvec_roles.h. Of one of `parts`: neighbouring units, a single sum.
template <int parts>
struct UnitOrder {
  int units;  ///< of the row
  int unit;

  __device__ UnitOrder(int units, int part) : units(units), unit(part * (units / parts)) {}
  __device__ void advance() {
    const int next = unit + (parts > 1 ? 1 : matvec_warps);
    unit = parts > 1 || next < units ? next : unit % matvec_warps + 1;
  }
  /// Whether the unit is the last one of its partial sum.
  __device__ bool ends_sum() const { return unit + matvec_warps >= units; }
  /// Whether the unit belongs to the first partial sum.
  __device__ bool of_first_sum() const { return unit % matvec_warps == 0; }
};

/// The items [begin, end) of a work-group; an item is a tile of slots and a group of rows. Items of a tile are consecutive,
/// so that its activations are copied once. Work-groups have equal shares of the work; a tile with more slots is more work.
struct FewItems {
  int row_groups;
  int begin;
  int end;

  /// Called by all lanes of a warp.
  __device__ FewItems(const ExpertFewArgs& args, int rows, int lane) : row_groups((args.n + rows - 1) / rows) {
    const int2 all = __ldcg(reinterpret_cast<const int2*>(args.work_count));
    const std::int64_t work = std::int64_t{all.y} * row_groups;
    const std::int64_t from = work * blockIdx.x / gridDim.x;
    const std::int64_t to = work * (blockIdx.x + 1) / gridDim.x;
    int tile_from = -1;  // the last tile that begins there or before
    int tile_to = -1;
#pragma unroll 4
    for (int first = 0; first < all.x; first += 32) {
      const int tile = first + lane;
      const std::int64_t before = tile < all.x ? std::int64_t{__ldcg(&args.work[tile].work_before)} * row_groups : work + 1;
      tile_from += __popc(__ballot_sync(0xffffffffu, before <= from));
      tile_to += __popc(__ballot_sync(0xffffffffu, before <= to));
    }
    begin = first_item(args, all, tile_from, from);
    end = first_item(args, all, tile_to, to);
  }

 private:
  /// The first item that begins when `work` has been done, or later.
  [[nodiscard]] __device__ int first_item(const ExpertFewArgs& args, int2 all, int tile, std::int64_t work) const {
    if (tile < 0) {
      return 0;  // there are no tiles
    }
    const int before = __ldcg(&args.work[tile].work_before);
    const int each = (tile + 1 < all.x ? __ldcg(&args.work[tile + 1].work_before) : all.y) - before;
    const auto inside = static_cast<int>(work - std::int64_t{before} * row_groups);
    return tile * row_groups + min((inside + each - 1) / each, row_groups);
  }
};

/// An item's place; the next item is found without a division.
struct FewItem {
  int item;
  int tile;
  int row_group;

  __device__ explicit FewItem(const FewItems& items)
      : item(items.begin), tile(items.begin / items.row_groups), row_group(items.begin % items.row_groups) {}
  __device__ void advance(const FewItems& items) {
    ++item;
    if (++row_group == items.row_groups) {
      row_group = 0;
      ++tile;
    }
  }
};

/// A warp's 16 rows of each item, whose units are divided among `parts` warps. The warp's units pass through a ring of its
/// own, continuously over all items.
template <WeightFormat format, int rows, int parts>
class FewWarp {
 public:
  __device__ FewWarp(const ExpertFewArgs& args, const FewItems& items, const std::uint8_t* ring, std::uint32_t barriers,
                     int warp, int lane)
      : args_(args),
        items_(items),
        ring_(ring),
        barriers_(barriers),
        lane_(lane),
        part_(parts == 1 ? 0 : warp / (few_warps / parts)),
        matrix_(warp % (few_warps / parts) / (rows / weight_tile_rows)),
        first_row_(warp % (rows / weight_tile_rows) * weight_tile_rows),
        at_(items),
        order_(args.units, part_) {
    find_weights();
  }

  /// Whether the item has rows of this warp.
  __device__ bool has(const FewItem& item) const { return row(item) < args_.n; }

  __device__ void start() {
    for (int at = 0; at < args_.ring; ++at) {
      fetch(at);
    }
  }

  /// Multiplies this warp's units of the next item that has rows with the tile's activations at `x`; partial sums are added
  /// up in their order.
  template <class Sums>
  __device__ void run(const std::uint8_t* x, float (&whole)[Sums::count]) {
    Sums sums(args_, x, lane_);
    UnitOrder<parts> order(args_.units, part_);
#pragma unroll 1
    for (int i = 0; i < own_units(); ++i) {
      barrier_wait(barriers_ + static_cast<std::uint32_t>(place_ * 8), parity_);
      sums.add_unit(ring_ + place_ * Unit<format>::bytes, order.unit, Unit<format>::groups(order.unit, args_.records));
      __syncwarp();
      fetch(place_);
      if (++place_ == args_.ring) {
        place_ = 0;
        parity_ ^= 1;
      }
      if constexpr (parts == 1) {
        if (order.ends_sum()) {
          float partial[Sums::count];
          sums.take(partial);
#pragma unroll
          for (int j = 0; j < Sums::count; ++j) {
            whole[j] = order.of_first_sum() ? partial[j] : whole[j] + partial[j];
          }
        }
      }
      order.advance();
    }
    if constexpr (parts > 1) {
      sums.take(whole);
    }
  }

 private:
  __device__ int row(const FewItem& item) const { return item.row_group * rows + first_row_; }
  __device__ int own_units() const { return args_.units / parts; }
  __device__ std::int64_t tile_bytes() const { return std::int64_t{args_.records} * weight_layout(format).record_bytes; }

  /// Finds the weights of the first item from at_ on that has rows, if there is one.
  __device__ void find_weights() {
    while (at_.item < items_.end && !has(at_)) {
      at_.advance(items_);
    }
    if (at_.item < items_.end) {
      const std::int64_t expert = __ldcg(&args_.work[at_.tile].expert);
      weight_ = args_.weights[matrix_] + expert * args_.expert_bytes[matrix_] + row(at_) / weight_tile_rows * tile_bytes();
    }
  }
  /// Goes on to the next item that has rows. Within a tile of slots its weights follow.
  __device__ void next_item() {
    const int tile = at_.tile;
    at_.advance(items_);
    if (at_.item < items_.end && at_.tile == tile && has(at_)) {
      weight_ += rows / weight_tile_rows * tile_bytes();
    } else {
      find_weights();
    }
  }

  /// Starts the copy of the next unit, if there is one.
  __device__ void fetch(int at) {
    if (at_.item >= items_.end) {
      return;
    }
    if (lane_ == 0) {
      const std::uint32_t barrier = barriers_ + static_cast<std::uint32_t>(at * 8);
      copy_bytes_expected(shared_address(ring_ + at * Unit<format>::bytes),
                          weight_ + std::int64_t{order_.unit} * Unit<format>::bytes,
                          Unit<format>::bytes_of(order_.unit, args_.records), barrier, evict_first_policy());
      barrier_arrive(barrier);
    }
    order_.advance();
    if (++fetched_ == own_units()) {
      fetched_ = 0;
      order_ = UnitOrder<parts>(args_.units, part_);
      next_item();
    }
  }

  const ExpertFewArgs& args_;
  const FewItems& items_;
  const std::uint8_t* ring_;
  std::uint32_t barriers_;  ///< an address in shared memory
  int lane_;
  int part_;  ///< of a row's units
  int matrix_;
  int first_row_;  ///< of a group's rows

  FewItem at_;  ///< whose units are fetched
  const std::uint8_t* weight_ = nullptr;
  UnitOrder<parts> order_;
  int fetched_ = 0;

  int place_ = 0;  ///< in the ring, of the unit that is multiplied next
  std::uint32_t parity_ = 0;
};

/// Loads a tile of slots, if it is not behind the last one; called by one warp.
__device__ inline void load_tile(const ExpertFewArgs& args, int tile, int last, FewTile (&tiles)[few_held_tiles], int lane) {
  if (tile <= last) {
    FewTile& to = tiles[tile % few_held_tiles];
    const int4 found = __ldcg(reinterpret_cast<const int4*>(args.work + tile));
    if (lane < found.z) {
      to.slots[lane] = __ldcg(args.order + found.y + lane);
    }
    if (lane == 0) {
      to.work = {found.x, found.y, found.z, found.w};
    }
  }
}

/// Copies a tile's rows of codes into its image in shared memory; called by one warp.
__device__ inline void copy_rows(const ExpertFewArgs& args, const FewTile& tile, const MatvecShared& image, std::uint8_t* to,
                                 std::uint64_t* barrier, int lane) {
  const int codes = few_row_code_bytes(args.padded_columns);
  const int info = few_row_info_bytes(args.padded_columns);
  const int count = tile.work.count;
  if (lane == 0) {
    barrier_expect(barrier, static_cast<std::uint32_t>(count * (codes + info)));
  }
  __syncwarp();
  if (lane < count) {
    const std::int64_t row = tile.slots[lane] / args.slots_of_row;
    const std::uint8_t* const x = args.x + row * few_row_bytes(args.padded_columns);
    copy_bytes(to + lane * image.token_bytes, x, static_cast<std::uint32_t>(codes), barrier);
    copy_bytes(to + image.info + lane * image.token_info_bytes, x + codes, static_cast<std::uint32_t>(info), barrier);
  }
}

/// Stores an output as a code, as down reads it; a warp has the 32 outputs of a block, which quantise() has in four lanes.
template <bool for_mxfp4>
__device__ inline void store_code(const ExpertFewArgs& args, std::int64_t slot, int column, float value) {
  const int columns = few_padded_columns(args.n);
  std::uint8_t* const row = args.codes + slot * few_row_bytes(columns);
  const BlockCodes block(__reduce_max_sync(0xffffffffu, magnitude_bits(value)));
  const int code = block.code(value);
  const int sum = __reduce_add_sync(0xffffffffu, code);
  const int e = column % 8;
  const int place = column % 32 - e + (!for_mxfp4 ? e : e < 4 ? 2 * e : 2 * e - 7);  // in_order_of_nibbles
  std::uint8_t* const codes = row + column / 32 * 64 + place;
  codes[0] = static_cast<std::uint8_t>(BlockCodes::upper(code));
  codes[32] = static_cast<std::uint8_t>(BlockCodes::lower(code));
  if (column % 32 == 0) {
    *reinterpret_cast<float2*>(row + few_row_code_bytes(columns) + column / 32 * 8) = block.info(sum);
  }
}

/// Zeros the blocks that pad a tile's rows to whole units; called by all threads.
__device__ inline void clear_codes_behind(const ExpertFewArgs& args, const FewTile& tile, int thread) {
  const int columns = few_padded_columns(args.n);
  const int blocks = (columns - args.n) / 32;
  for (int i = thread; i < tile.work.count * blocks * 9; i += few_warps * 32) {
    const int block = args.n / 32 + i / 9 % blocks;
    std::uint8_t* const row = args.codes + tile.slots[i / (9 * blocks)] * std::int64_t{few_row_bytes(columns)};
    const int at = i % 9 < 8 ? block * 64 + i % 9 * 8 : few_row_code_bytes(columns) + block * 8;
    *reinterpret_cast<uint2*>(row + at) = {0, 0};
  }
}

template <WeightFormat format, bool gated, int parts>
__device__ inline void expert_few(const ExpertFewArgs& args) {
  constexpr int matrices = gated ? 2 : 1;
  constexpr int rows = few_rows_at_once(matrices, parts);
  extern __shared__ __align__(128) std::uint8_t memory[];
  const int thread = static_cast<int>(threadIdx.x);
  const int warp = thread / 32;
  const int lane = thread % 32;
  const MatvecShared image = matvec_shared(few_slots, args.padded_columns, 0, 0);
  const ExpertFewShared shared = expert_few_shared(args.tile_bytes, args.ring, Unit<format>::bytes);
  auto* sums = reinterpret_cast<float*>(memory + shared.sums);
  auto* x_barrier = reinterpret_cast<std::uint64_t*>(memory + shared.barriers);
  const std::uint32_t barriers = shared_address(x_barrier + 1 + warp * args.ring);
  if (lane == 0) {
    for (int i = 0; i < args.ring; ++i) {
      barrier_init(barriers + static_cast<std::uint32_t>(i * 8), few_unit_arrivals);
    }
    if (warp == 0) {
      barrier_init(x_barrier, few_x_arrivals);
    }
    barrier_init_fence();
  }
  __syncthreads();
  if (args.chosen_before == 0) {
    gpu::wait_for_predecessor();
  }
  gpu::release_successor();  // for gate and up, launched in turn: down then finds the order of the slots
  const FewItems items(args, rows, lane);
  FewWarp<format, rows, parts> own(args, items, memory + shared.ring + warp * args.ring * Unit<format>::bytes, barriers,
                                   warp, lane);
  own.start();
  // A tile is loaded while the one before it is multiplied.
  FewItem at(items);
  const int last_tile = (items.end - 1) / items.row_groups;
  auto& tiles = *reinterpret_cast<FewTile(*)[few_held_tiles]>(memory + shared.tiles);
  if (warp < few_held_tiles && at.item < items.end) {  // without items the list may hold tiles of an earlier step
    load_tile(args, at.tile + warp, last_tile, tiles, lane);
  }
  __syncthreads();
  gpu::wait_for_predecessor();
  int held = -1;  // the tile whose activations are in shared memory
  std::uint32_t x_parity = 0;
#pragma unroll 1
  for (; at.item < items.end; at.advance(items)) {
    const FewTile& tile = tiles[at.tile % few_held_tiles];
    const int count = tile.work.count;
    if (at.tile != held) {
      if (warp == 0) {
        copy_rows(args, tile, image, memory, x_barrier, lane);
      } else if (warp == 1 && held >= 0) {
        load_tile(args, at.tile + 1, last_tile, tiles, lane);
      }
      barrier_wait(x_barrier, x_parity);
      x_parity ^= 1;
      held = at.tile;
    }
    const auto multiply = [&]<class Sums>() {
      float whole[Sums::count];
      own.template run<Sums>(memory, whole);
#pragma unroll
      for (int i = 0; i < Sums::count; ++i) {
        sums[(warp * few_slots + Sums::slot_of(i, lane)) * weight_tile_rows + Sums::row_of(i, lane)] = whole[i];
      }
    };
    if (own.has(at)) {
      if (count == 1) {
        multiply.template operator()<FewSums<format, 1>>();
      } else if (count == 2) {
        multiply.template operator()<FewSums<format, 2>>();
      } else if (count <= 4) {
        multiply.template operator()<FewSums<format, 4>>();
      } else {
        multiply.template operator()<FewSums<format, 8>>();
      }
    }
    const int local = thread % rows;
    const int row = at.row_group * rows + local;
    ProductFinish finish[matrices];
    if (row < args.n) {
#pragma unroll
      for (int matrix = 0; matrix < matrices; ++matrix) {
        finish[matrix] = load_finish(args.finish[matrix], tile.work.expert, row);
      }
    }
    __syncthreads();  // the tile's activations are not read any more
    if (row < args.n) {
      for (int slot = thread / rows; slot < count; slot += few_warps * 32 / rows) {
        const auto product = [&](int matrix) {
          const int from = (matrix * rows + local) / weight_tile_rows;
          const float* const of_warp = sums + (from * few_slots + slot) * weight_tile_rows + local % weight_tile_rows;
          float sum = of_warp[0];
#pragma unroll
          for (int part = 1; part < parts; ++part) {
            sum += of_warp[part * (few_warps / parts) * few_slots * weight_tile_rows];
          }
          return sum * finish[matrix].scale + finish[matrix].bias;
        };
        const float result = gated ? gpu::activate(args.activation, product(0), product(matrices - 1)) : product(0);
        const std::int64_t to = tile.slots[slot];
        args.out[to * args.n + row] = result;
        if constexpr (gated) {
          if (args.codes != nullptr) {
            store_code<format == WeightFormat::mxfp4>(args, to, row, result);
          }
        }
      }
    }
    if constexpr (gated) {
      if (args.codes != nullptr && (at.row_group + 1) * rows >= args.n) {
        clear_codes_behind(args, tile, thread);
      }
    }
    __syncthreads();  // nor are the sums
  }
}

}  // namespace rocmforge::hopper
