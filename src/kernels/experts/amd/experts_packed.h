#pragma once

// Products of few tokens with the packed matrices of their experts, in the frame of matvec_packed.h: expert_packed_gate_up
// and expert_packed_down.
//
// A work-group has neighbouring cuts of one token (experts_args.h). All items of a batch of cuts are one run, even of
// different experts: the weights of the next expert are in flight while those of the last one are multiplied. At the end of
// a batch a thread adds up the partial sums of a row of an item, and one thread for each output combines these: the
// activation of gate and up, or the weighted sum over the slots in the order of their choice. So a token's result has the
// bits that it has alone.

#include "kernels/experts/amd/experts_args.h"
#include "kernels/matmul/amd/matvec_packed.h"

namespace rocmforge::amd {

/// Rows of x, without a norm.
struct ExpertRows {
  const float* x;
  int k;
  static constexpr const float* norm_weight = nullptr;
};

/// The matrix, slot and tile of rows of an item of a batch of `count` cuts from `first` on. The items of gate come before
/// those of up; the items of a tile of down are consecutive.
template <bool down>
struct ExpertPlace {
  int matrix;
  int slot;  ///< of the token
  int tile;

  __device__ __forceinline__ ExpertPlace(const ExpertVectorArgs& args, int item, int first, int count) {
    if constexpr (down) {
      matrix = 0;
      tile = divided(item, args.part_divisor);
      slot = item - tile * args.parts;
      tile += first;
    } else {
      matrix = item >= count ? 1 : 0;
      const int cut = first + item - matrix * count;
      slot = divided(cut, args.tile_divisor);
      tile = cut - slot * args.row_tiles;
    }
  }

  __device__ __forceinline__ int expert(const ExpertVectorArgs& args) const {
    return ((Global<const std::int32_t>)args.ids)[static_cast<int>(blockIdx.y) * args.used + slot];
  }
  __device__ __forceinline__ const std::uint8_t* address(const ExpertVectorArgs& args, int expert) const {
    const std::uint8_t* weight = matrix == 0 ? args.weights[0] : args.weights[1];
    const std::int64_t bytes = matrix == 0 ? args.expert_bytes[0] : args.expert_bytes[1];
    return weight + expert * bytes + std::int64_t{tile} * args.tile_bytes;
  }
};

/// The weights and activations of the items of a batch. In every wave, a lane holds those of the item with the lane's
/// number, so that a wave finds an item without waiting for memory.
struct ItemTable {
  static constexpr int parts = most_expert_items / gpu::wave_size;
  std::uint32_t low[parts];
  std::uint32_t high[parts];
  std::int32_t image[parts];

  template <class T>
  __device__ __forceinline__ static T of_item(const T (&values)[parts], int item) {
    const auto lane = [item](T value, int part) {
      return static_cast<T>(
          __builtin_amdgcn_readlane(static_cast<int>(value), static_cast<unsigned>(item - part * gpu::wave_size)));
    };
    T value = lane(values[0], 0);
    if constexpr (parts == 2) {
      const T second = lane(values[1], 1);
      value = item < gpu::wave_size ? value : second;
    }
    return value;
  }
};
static_assert(ItemTable::parts == 1 || ItemTable::parts == 2);

/// The items of a batch as a run of matvec_packed.h.
template <bool down>
struct ExpertRun {
  const ItemTable& table;
  int item_sums;  ///< partial sums of an item
  int record_bytes;
  WeightFormat format;
  int count;
  static constexpr int earlier = 0;

  template <MatvecWay>
  __device__ __forceinline__ const std::uint8_t* tile(int item) const {
    const std::uint64_t high = ItemTable::of_item(table.high, item);
    return reinterpret_cast<const std::uint8_t*>(high << 32 | ItemTable::of_item(table.low, item));
  }
  template <MatvecWay>
  __device__ __forceinline__ static int part_of_tile(int) {
    return 0;
  }
  __device__ __forceinline__ int sums(int item) const { return item * item_sums; }
  __device__ __forceinline__ int image(int item) const { return down ? ItemTable::of_item(table.image, item) : 0; }
};

/// The operands for finishing an item's row, loaded by its thread before the products are made.
struct ItemFinish {
  float scale = 1.0f;
  float bias = 0.0f;
  float share = 1.0f;  ///< of the slot, for down
};

/// A call of experts that is a launch of its own.
struct OwnExperts : OwnLaunch {
  __device__ static constexpr bool waits_for_choice() { return false; }
};

template <bool down>
class ExpertVectors {
 public:
  static constexpr MatvecWay way = MatvecWay::one_token;

  __device__ __forceinline__ ExpertVectors(const ExpertVectorArgs& args, std::uint8_t* memory)
      : args_(args),
        memory_(memory),
        all_records_((args.k + record_elems - 1) / record_elems),
        rows_(down ? args.used : 1),
        shared_(expert_shared(rows_, args.chunk_records, all_records_, args.parts * args.batch_cuts)) {}

  /// Work-group `group` of the call. `order`: as for matvec(), and whether the call before chooses the experts.
  template <class Order>
  __device__ __forceinline__ void run(int group, const Order& order) {
    const int begin = group * args_.group_cuts;
    const int end = min(begin + args_.group_cuts, args_.cuts);
    const int wave = uniform(gpu::wave_index());
    const bool whole = args_.chunk_records >= all_records_;  // the image is made once
    begin_chunk(0);
    const int team = gpu::thread_index() / team_lanes;
    const ExpertRows rows = input();
    Activations loaded[rounds];
    const auto load_first = [&]() __attribute__((always_inline)) {
#pragma unroll
      for (int i = 0; i < rounds; ++i) {
        load(rows, min(team + i * teams, rows_ * padded() - 1), loaded[i]);
      }
    };
    if (order.waits_for_choice()) {
      order.wait();
    }
    const bool is_ready = order.is_first() || order.waits_for_choice();
    if (is_ready) {
      load_first();
    }
    ItemTable table = find_items(begin, min(args_.batch_cuts, end - begin));
    FirstStep<way> weights;
    weights.load(run_of(table, args_, min(args_.batch_cuts, end - begin)), chunk_.steps, wave);
    ItemFinish finish = begin_batch(begin, min(args_.batch_cuts, end - begin));
    if (!is_ready) {
      order.wait();
      load_first();
    }
#pragma unroll
    for (int i = 0; i < rounds; ++i) {
      if (const int at = team + i * teams; at < rows_ * padded()) {
        put(rows, at, loaded[i]);
      }
    }
    for (int first = begin; first < end; first += args_.batch_cuts) {
      const int count = min(args_.batch_cuts, end - first);
      int at = 0;
      do {  // k is not 0
        begin_chunk(at);
        const bool is_first = first == begin && at == 0;
        if (is_first || !whole) {
          put_others(is_first ? rounds : 0);
        }
        sync_shared();
        if (is_first) {
          weights.keep();
        }
        const ExpertVectorArgs& here = read_again(args_);
        walk_run<way>(run_of(table, here, count), chunk_, wave);
        sync_shared();
        at += args_.chunk_records;
      } while (at < all_records_);
      finish_items(finish, count);
      sync_shared();
      finish_outputs(first, count);
      if (const int next = first + args_.batch_cuts; next < end) {
        sync_shared();
        table = find_items(next, min(args_.batch_cuts, end - next));
        finish = begin_batch(next, min(args_.batch_cuts, end - next));
      }
    }
  }

 private:
  static constexpr int rounds = 3;  // of the teams, whose activations are loaded together

  __device__ __forceinline__ float* sums() const { return reinterpret_cast<float*>(memory_ + shared_.partials); }

  __device__ __forceinline__ int item_sums() const { return expert_partial_sums(all_records_); }

  __device__ __forceinline__ void begin_chunk(int first) {
    const int records = min(args_.chunk_records, all_records_ - first);
    chunk_ = {memory_, shared_, 1, first, records, (records + step_records - 1) / step_records};
  }

  __device__ __forceinline__ ExpertRows input() const {
    const std::int64_t row = down ? static_cast<int>(blockIdx.y) * args_.used : static_cast<int>(blockIdx.y);
    return {args_.x + row * args_.k, args_.k};
  }
  /// Records of the chunk, of all rows one after another, padded to an even number by a record of zeros.
  __device__ __forceinline__ int padded() const { return (chunk_.records + 1) / 2 * 2; }
  __device__ __forceinline__ void load(const ExpertRows& rows, int at, Activations& loaded) const {
    const int row = down ? at / padded() : 0;
    const int first = (chunk_.first + at - row * padded()) * record_elems + gpu::thread_index() % team_lanes * lane_elems;
    if (first < rows.k) {
      load_eight(rows.x + std::int64_t{row} * rows.k + first, loaded.values);
    } else {
#pragma unroll
      for (float& value : loaded.values) {
        value = 0.0f;
      }
    }
  }
  __device__ __forceinline__ void put(const ExpertRows& rows, int at, Activations& loaded) const {
    const int row = down ? at / padded() : 0;
    quantise(rows, loaded, memory_ + row * shared_.token_bytes + (at - row * padded()) * image_record_bytes, nullptr);
  }
  __device__ __forceinline__ void put_others(int done) const {
    const ExpertRows rows = input();
    for (int at = gpu::thread_index() / team_lanes + done * teams; at < rows_ * padded(); at += teams) {
      Activations loaded;
      load(rows, at, loaded);
      put(rows, at, loaded);
    }
  }

  __device__ __forceinline__ ExpertRun<down> run_of(const ItemTable& table, const ExpertVectorArgs& args, int count) const {
    return {table, item_sums(), args.record_bytes, args.format, args.parts * count};
  }

  __device__ __forceinline__ ItemTable find_items(int first, int count) const {
    ItemTable table;
#pragma unroll
    for (int i = 0; i < ItemTable::parts; ++i) {
      const int item = min(i * gpu::wave_size + gpu::lane_index(), args_.parts * count - 1);
      const ExpertPlace<down> place(args_, item, first, count);
      const auto address = reinterpret_cast<std::uintptr_t>(place.address(args_, place.expert(args_)));
      table.low[i] = static_cast<std::uint32_t>(address);
      table.high[i] = static_cast<std::uint32_t>(address >> 32);
      table.image[i] = down ? place.slot * shared_.token_bytes : 0;
    }
    return table;
  }

  /// Loads the operands for finishing the thread's row, and clears the sums of a batch.
  __device__ __forceinline__ ItemFinish begin_batch(int first, int count) const {
    const int items = args_.parts * count;
    const int thread = gpu::thread_index();
    ItemFinish finish;
    if (const int own = thread / weight_tile_rows; own < items) {
      const ExpertPlace<down> place(args_, own, first, count);
      const gpu::ExpertFinish& of_matrix = args_.finish[place.matrix];
      if (of_matrix.scale != nullptr) {
        finish.scale = ((Global<const float>)of_matrix.scale)[place.expert(args_)];
      }
      const int row = place.tile * weight_tile_rows + thread % weight_tile_rows;
      if (of_matrix.bias != nullptr && row < args_.n) {
        finish.bias = ((Global<const float>)of_matrix.bias)[place.expert(args_) * of_matrix.bias_stride + row];
      }
      if constexpr (down) {
        finish.share = ((Global<const float>)args_.shares)[static_cast<int>(blockIdx.y) * args_.used + place.slot];
      }
    }
    const int floats = items * item_sums() * weight_tile_rows;
    for (int at = thread; at < floats; at += matvec_threads) {
      sums()[at] = 0.0f;
    }
    return finish;
  }

  /// The product of a row of an item, for down times its share, replaces its first partial sum.
  __device__ __forceinline__ void finish_items(const ItemFinish& finish, int count) const {
    const int item = gpu::thread_index() / weight_tile_rows;
    if (item >= args_.parts * count) {
      return;
    }
    int number = item_sums();
    asm volatile("" : "+s"(number));  // values derived from it are not kept in registers during the products
    float* const own = sums() + item * number * weight_tile_rows + gpu::thread_index() % weight_tile_rows;
    float sum = 0.0f;
#pragma unroll 4
    for (int i = 0; i < number; ++i) {
      sum += own[i * weight_tile_rows];
    }
    own[0] = (sum * finish.scale + finish.bias) * finish.share;
  }

  __device__ __forceinline__ void finish_outputs(int first, int count) const {
    const int cut = gpu::thread_index() / weight_tile_rows;
    if (cut >= count) {
      return;
    }
    const ExpertPlace<down> place(args_, down ? cut * args_.parts : cut, first, count);
    const int row = place.tile * weight_tile_rows + gpu::thread_index() % weight_tile_rows;
    if (row >= args_.n) {
      return;
    }
    const int item_floats = item_sums() * weight_tile_rows;
    const float* product = sums() + (down ? cut * args_.parts : cut) * item_floats + gpu::thread_index() % weight_tile_rows;
    const int token = static_cast<int>(blockIdx.y);
    if constexpr (down) {
      const auto to = (Global<float>)(args_.out + std::int64_t{token} * args_.n + row);
      const float before = *to;
      float total = 0.0f;
      int used = args_.used;
      asm volatile("" : "+s"(used));  // its comparands are not kept in registers during the products
      for (int slot = 0; slot < used; ++slot) {
        total += product[slot * item_floats];
      }
      *to = before + total;
    } else {
      const auto to = (Global<float>)(args_.out + (std::int64_t{token} * args_.used + place.slot) * args_.n + row);
      *to = args_.parts == 1 ? gpu::activate_alone(args_.activation, *product)
                             : gpu::activate(args_.activation, *product, product[count * item_floats]);
    }
  }

  const ExpertVectorArgs& args_;
  std::uint8_t* memory_;
  int all_records_;
  int rows_;  ///< of x
  MatvecShared shared_;
  Chunk chunk_{};
};

template <bool down, class Order>
__device__ __forceinline__ void expert_vectors(const ExpertVectorArgs& args, int group, const Order& order) {
  HIP_DYNAMIC_SHARED(uint4, dynamic)
  ExpertVectors<down>(args, reinterpret_cast<std::uint8_t*>(dynamic)).run(group, order);
}

}  // namespace rocmforge::amd
