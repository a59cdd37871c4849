#pragma once

// Products of few tokens with the packed matrices of their experts, in the frame of matvec_packed.h: expert_gate_up and
// expert_down.
//
// A work-group has neighbouring cuts of one token (experts_args.h). All items of a batch of cuts are one run, whichever
// experts they belong to: the weights of the next expert are on their way while those of the last one are multiplied. A
// table in shared memory says where each item's weights and activations are. At the end of a batch a thread adds up the
// partial sums of a row of an item, and one thread for each output takes these together: the activation of gate and up, or
// the weighted sum over the slots in the order of their choice. So a token's result has the bits that it has alone.

#include "kernels/amd/experts_args.h"
#include "kernels/amd/matvec_packed.h"

namespace rocmforge::amd {

/// Rows of x, without a norm.
struct ExpertRows {
  const float* x;
  int k;
  static constexpr const float* norm_weight = nullptr;
};

/// What an item of a batch is: of part `part` of cut `cut`.
struct ExpertItem {
  int part;
  int cut;  ///< of the token

  __device__ ExpertItem(int item, int first, int count) : part(item / count), cut(first + item - part * count) {}
};

/// The matrix, slot and tile of rows of an item.
template <bool down>
struct ExpertPlace {
  int matrix;
  int slot;  ///< of the token
  int tile;

  __device__ ExpertPlace(const ExpertVectorArgs& args, const ExpertItem& item)
      : matrix(down ? 0 : item.part),
        slot(down ? item.part : item.cut / args.row_tiles),
        tile(down ? item.cut : item.cut - slot * args.row_tiles) {}

  __device__ int expert(const ExpertVectorArgs& args) const {
    return ((Global<const std::int32_t>)args.ids)[static_cast<int>(blockIdx.y) * args.used + slot];
  }
  __device__ const std::uint8_t* address(const ExpertVectorArgs& args, int expert) const {
    const std::uint8_t* weight = matrix == 0 ? args.weights[0] : args.weights[1];
    const std::int64_t bytes = matrix == 0 ? args.expert_bytes[0] : args.expert_bytes[1];
    return weight + expert * bytes + std::int64_t{tile} * args.tile_bytes;
  }
};

/// An entry of the table.
struct alignas(expert_item_bytes) TableItem {
  const std::uint8_t* tile;
  std::int32_t image;  ///< bytes to that of its activations
  float share;         ///< of its slot
};
static_assert(sizeof(TableItem) == expert_item_bytes);

/// The items of a batch as a run of matvec_packed.h.
template <bool down>
struct ExpertRun {
  const TableItem* table;
  int item_sums;  ///< partial sums of an item
  int record_bytes;
  WeightFormat format;
  int count;
  static constexpr int earlier = 0;

  template <MatvecWay>
  __device__ const std::uint8_t* tile(int item) const {
    return table[item].tile;
  }
  template <MatvecWay>
  __device__ static int part_of_tile(int) {
    return 0;
  }
  __device__ int sums(int item) const { return item * item_sums; }
  __device__ int image(int item) const { return down ? uniform(table[item].image) : 0; }
};

/// The same for FirstStep, before there is a table.
template <bool down>
struct EarlyRun {
  const ExpertVectorArgs& args;
  int first;
  int cuts;
  int record_bytes;
  int count;
  static constexpr int earlier = 0;

  template <MatvecWay>
  __device__ const std::uint8_t* tile(int item) const {
    const ExpertPlace<down> place(args, ExpertItem(item, first, cuts));
    return place.address(args, uniform(place.expert(args)));
  }
  template <MatvecWay>
  __device__ static int part_of_tile(int) {
    return 0;
  }
};

/// What becomes of an item's row, which a thread finishes. Read before the products are made.
struct ItemFinish {
  int expert = 0;
  float scale = 1.0f;
  float bias = 0.0f;
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

  __device__ __forceinline__ void run() {
    const int begin = static_cast<int>(blockIdx.x) * args_.group_cuts;
    const int end = min(begin + args_.group_cuts, args_.cuts);
    const int wave = uniform(gpu::wave_index());
    const bool whole = args_.chunk_records >= all_records_;  // the image stays as it is
    begin_chunk(0);
    const int team = gpu::thread_index() / team_lanes;
    const ExpertRows rows = input();
    Activations loaded[rounds];
#pragma unroll
    for (int i = 0; i < rounds; ++i) {
      load(rows, min(team + i * teams, rows_ * padded() - 1), loaded[i]);
    }
    ItemFinish finish = begin_batch(begin, min(args_.batch_cuts, end - begin));
    FirstStep<way> weights;
    const int cuts = min(args_.batch_cuts, end - begin);
    weights.load(EarlyRun<down>{args_, begin, cuts, args_.record_bytes, args_.parts * cuts}, chunk_.steps, wave);
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
        walk_run<way>(ExpertRun<down>{table(), item_sums(), here.record_bytes, here.format, here.parts * count}, chunk_,
                      wave);
        sync_shared();
        at += args_.chunk_records;
      } while (at < all_records_);
      finish_items(finish, count);
      sync_shared();
      finish_outputs(first, count);
      if (const int next = first + args_.batch_cuts; next < end) {
        sync_shared();
        finish = begin_batch(next, min(args_.batch_cuts, end - next));
      }
    }
  }

 private:
  static constexpr int rounds = 3;  // of the teams, whose activations are on their way at once

  __device__ __forceinline__ TableItem* table() const { return reinterpret_cast<TableItem*>(memory_ + shared_.items); }
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
  /// Records of the chunk, of all rows one after another, with one of zeros behind an odd number of them.
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

  /// Makes the table and clears the sums of a batch.
  __device__ __forceinline__ ItemFinish begin_batch(int first, int count) const {
    const int items = args_.parts * count;
    const int thread = gpu::thread_index();
    ItemFinish finish;
    if (const int own = thread / weight_tile_rows; own < items) {
      const ExpertPlace<down> place(args_, ExpertItem(own, first, count));
      finish.expert = place.expert(args_);
      if (thread % weight_tile_rows == 0) {
        const float share =
            down ? ((Global<const float>)args_.shares)[static_cast<int>(blockIdx.y) * args_.used + place.slot] : 1.0f;
        table()[own] = {place.address(args_, finish.expert), down ? place.slot * shared_.token_bytes : 0, share};
      }
      const gpu::ExpertFinish& of_matrix = args_.finish[place.matrix];
      if (of_matrix.scale != nullptr) {
        finish.scale = ((Global<const float>)of_matrix.scale)[finish.expert];
      }
      const int row = place.tile * weight_tile_rows + thread % weight_tile_rows;
      if (of_matrix.bias != nullptr && row < args_.n) {
        finish.bias = ((Global<const float>)of_matrix.bias)[finish.expert * of_matrix.bias_stride + row];
      }
    }
    const int floats = items * item_sums() * weight_tile_rows;
    for (int at = thread; at < floats; at += matvec_threads) {
      sums()[at] = 0.0f;
    }
    return finish;
  }

  /// The product of a row of an item takes the place of its first partial sum.
  __device__ __forceinline__ void finish_items(const ItemFinish& finish, int count) const {
    const int item = gpu::thread_index() / weight_tile_rows;
    if (item >= args_.parts * count) {
      return;
    }
    const int number = item_sums();
    float* const own = sums() + item * number * weight_tile_rows + gpu::thread_index() % weight_tile_rows;
    float sum = 0.0f;
#pragma unroll 4
    for (int i = 0; i < number; ++i) {
      sum += own[i * weight_tile_rows];
    }
    own[0] = sum * finish.scale + finish.bias;
  }

  __device__ __forceinline__ void finish_outputs(int first, int count) const {
    const int cut = gpu::thread_index() / weight_tile_rows;
    if (cut >= count) {
      return;
    }
    const ExpertPlace<down> place(args_, ExpertItem(cut, first, count));
    const int row = place.tile * weight_tile_rows + gpu::thread_index() % weight_tile_rows;
    if (row >= args_.n) {
      return;
    }
    const int item_floats = item_sums() * weight_tile_rows;
    const float* product = sums() + cut * item_floats + gpu::thread_index() % weight_tile_rows;
    const int token = static_cast<int>(blockIdx.y);
    if constexpr (down) {
      const auto to = (Global<float>)(args_.out + std::int64_t{token} * args_.n + row);
      const float before = *to;
      float total = 0.0f;
      for (int slot = 0; slot < args_.used; ++slot) {
        total = fmaf(table()[slot * count + cut].share, product[slot * count * item_floats], total);
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
  ExpertShared shared_;
  Chunk chunk_{};
};

template <bool down>
__device__ __forceinline__ void expert_vectors(const ExpertVectorArgs& args) {
  HIP_DYNAMIC_SHARED(uint4, dynamic)
  ExpertVectors<down>(args, reinterpret_cast<std::uint8_t*>(dynamic)).run();
}

}  // namespace rocmforge::amd
