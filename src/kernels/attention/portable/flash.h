#pragma once

// Fused attention of query tiles: one work-group computes 16 rows a wave of one query head of one sequence, walking the
// keys in tiles at multiples of `keys` positions, so that a row's result does not depend on the rows beside it.

#include "kernels/attention/portable/flash_tile.h"
#if ROCMFORGE_DEVICE_AMD
#include "kernels/attention/portable/flash_ahead.h"
#if ROCMFORGE_FLASH_SPLIT
#include "kernels/attention/portable/flash_split_long.h"
#endif
#endif

namespace rocmforge::gpu {

/// `parts_` waves share 16 rows: each has a part of the dimensions of queries, keys and values. The products of a part are
/// added up over the waves of a row through shared memory; then each of these waves computes the same weights.
template <class T, int head_dim_, int parts_ = 1, int row_waves_ = 4>
struct FlashShape {
  using Tile = FlashTile<T>;
  static constexpr int head_dim = head_dim_;
  static constexpr int parts = parts_;
  static constexpr int row_waves = row_waves_;
  static constexpr int waves = parts * row_waves;
  static constexpr int threads = waves * wave_size;
  static constexpr int rows = 16 * row_waves;
  static constexpr int part_dims = head_dim / parts;
  static constexpr int dim_tiles = part_dims / 16;  ///< of a wave
  /// Queries stay in registers where there are enough of them beside the sums.
  static constexpr int registers = dim_tiles * (Tile::operand_registers + Tile::c_elems);
  static constexpr bool queries_in_registers = registers <= Tile::most_registers;
  /// Tiles of keys that travel through registers are short enough for them.
  static constexpr bool ahead =
      Tile::loads_ahead && queries_in_registers && part_dims <= 128;  // longer rows take all registers
  static constexpr int keys = ahead                                    ? Tile::keys_ahead(head_dim)
                              : head_dim <= Tile::most_dims_of_64_keys ? 64
                              : registers < 192                        ? 32
                                                                       : 16;
  static constexpr int key_tiles = keys / 16;
  static constexpr int dims_at_once = ahead && dim_tiles % Tile::most_dims_at_once == 0 ? Tile::most_dims_at_once : 1;
  static constexpr int copies_at_once = registers < 192 ? Tile::copies_at_once : 1;
  static constexpr int stride = head_dim + 8;  ///< of a row of K: 16-byte aligned, and eight rows fall on different banks
  /// Where waves share rows, a row of V has no padding, but each eight rows have: the elements of one store lie eight rows
  /// apart. At head_dim 256 the space saved makes no room for another work-group, and swapping blocks by row costs
  /// instructions.
  static constexpr bool eights_padded = ahead && parts > 1 && head_dim != 256 && Tile::alike_dims == 8;
  static constexpr int value_stride = Tile::values_by_dim ? keys + (eights_padded ? 0
                                                                    : ahead       ? Tile::value_padding
                                                                                  : 8)
                                                          : stride;
  /// Elements of V [dim][key] before dimension `dim`, a multiple of eight.
  static constexpr __device__ int value_start(int dim) { return dim * value_stride + (eights_padded ? dim : 0); }
  static constexpr int key_elems = keys * stride;
  static constexpr int value_elems = Tile::values_by_dim ? value_start(head_dim) : keys * stride;
  static constexpr int query_elems = rows * stride;
  static constexpr int kv_elems = key_elems + value_elems;
  /// Queries share the shared memory of K and V, or have their own in front of it.
  static constexpr int kv_start = queries_in_registers ? 0 : query_elems;
  /// Scores of a part, which the waves of a row exchange: floats after K and V.
  static constexpr int exchange_elems = (parts > 1 ? 32 : 0) * waves * keys;
  static constexpr int used_elems = kv_elems + exchange_elems;
  static constexpr int shared_elems =
      kv_start + (queries_in_registers && query_elems > used_elems ? query_elems : used_elems);
  /// Waves that a SIMD should hold at least; the register limit follows from it. A work-group has waves / 4 on each SIMD.
  static constexpr int simd_groups = Tile::simd_lds_bytes / (shared_elems * 2) * waves / 4;
  static constexpr int simd_waves = !ahead || simd_groups < 1        ? 1
                                    : simd_groups < Tile::simd_waves ? simd_groups
                                                                     : Tile::simd_waves;
  static_assert(part_dims % 16 == 0 && part_dims * parts == head_dim && (parts == 1 || ahead));
  static_assert(shared_elems * 2 <= (ROCMFORGE_DEVICE_AMD ? 65536 : 49152));

  /// Which 16 rows of the group, and which part of the dimensions, a wave has.
  __device__ static int row_wave() { return parts == 1 ? wave_index() : wave_index() % row_waves; }
  __device__ static int part() { return parts == 1 ? 0 : wave_index() / row_waves; }
};

/// Shared memory and waves of a SIMD that a kernel asks for.
template <class T, int head_dim, int parts = 1, int row_waves = 4>
struct FlashResources : FlashShape<T, head_dim, parts, row_waves> {
  static constexpr bool split = false;
};
#if ROCMFORGE_FLASH_SPLIT
template <class T>
struct FlashResources<T, 128> : FlashSplitShape<T, 128> {};
/// head_dim 192 and 256 have such kernels as well as those of four waves that share no rows.
template <class T>
struct FlashResources<T, 192, 2> : FlashSplitShape<T, 192, 256> {};
template <class T>
struct FlashResources<T, 256, 2> : FlashSplitShape<T, 256> {};
#endif

/// Whether the waves of a kernel share keys. Their order of instructions has no room for a row's own end (SpanEnds).
template <class Ends, class T, int head_dim, int parts, int row_waves>
inline constexpr bool flash_splits = FlashResources<T, head_dim, parts, row_waves>::split && !has_spans<Ends>;

/// Elements of shared memory.
template <class Ends, class T, int head_dim, int parts, int row_waves>
constexpr int flash_shared_elems() {
  if constexpr (flash_splits<Ends, T, head_dim, parts, row_waves>) {
    return FlashResources<T, head_dim, parts, row_waves>::shared_elems;
  } else {
    return FlashShape<T, head_dim, parts, row_waves>::shared_elems;
  }
}

/// One work-group's place in the call.
struct FlashPlace {
  SequenceRange range;
  int sequence;
  int head;
  int tile_row;        ///< first row of the tile in its sequence
  int first_position;  ///< of the sequence's row 0; negative when there are more rows than keys
};

template <class Shape, class T>
__device__ inline void load_queries(const AttentionArgs& args, const FlashPlace& place, T* to) {
  constexpr int chunks = Shape::head_dim / 8;
  for (int i = thread_index(); i < Shape::rows * chunks; i += Shape::threads) {
    const int row = i / chunks;
    const int dim = i % chunks * 8;
    const bool present = place.tile_row + row < place.range.q_len;
    const std::int64_t from =
        (place.range.first_row + place.tile_row + row) * args.q_stride + std::int64_t{place.head} * Shape::head_dim + dim;
    Bytes16 values{};
    if (present) {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        values.words[j] =
            pack_pair<T>(load_io(args.q, args.io_dtype, from + 2 * j), load_io(args.q, args.io_dtype, from + 2 * j + 1));
      }
    }
    *reinterpret_cast<Bytes16*>(to + row * Shape::stride + dim) = values;
  }
}

/// Rows [first_key, first_key + keys) of K or V as [key][dim], zeros from `end` on.
template <class Shape, class T>
__device__ inline void load_rows(const AttentionArgs& args, int sequence, const T* from, int first_key, int end, T* to) {
  constexpr int chunks = Shape::head_dim / 8;
  // A tile that lies in one block, or in a plain tensor, needs one look-up.
  const bool together = args.kv.block_tables == nullptr || (1 << args.kv.block_shift) >= Shape::keys;
  const T* tile = from + kv_row(args.kv, sequence, first_key);
  if (together) {
#pragma unroll Shape::copies_at_once
    for (int i = thread_index(); i < Shape::keys * chunks; i += Shape::threads) {
      const int key = i / chunks;
      const int dim = i % chunks * 8;
      const bool present = first_key + key < end;
      copy_async(to + key * Shape::stride + dim, tile + (present ? key : 0) * args.kv.token_stride + dim, present);
    }
    return;
  }
#pragma unroll 1
  for (int i = thread_index(); i < Shape::keys * chunks; i += Shape::threads) {
    const int key = i / chunks;
    const int dim = i % chunks * 8;
    const bool present = first_key + key < end;
    const std::int64_t row = present ? kv_row(args.kv, sequence, first_key + key) : 0;
    copy_async(to + key * Shape::stride + dim, from + row + dim, present);
  }
}

/// Rows of V as [dim][key].
template <class Shape, class T>
__device__ inline void load_rows_by_dim(const AttentionArgs& args, int sequence, const T* from, int first_key, int end,
                                        T* to) {
  constexpr int pairs = Shape::keys / 2;
  constexpr int chunks = Shape::head_dim / 8;
#pragma unroll 2
  for (int i = thread_index(); i < pairs * chunks; i += Shape::threads) {
    const int key = i % pairs * 2;
    const int dim = i / pairs * 8;
    Bytes16 rows[2] = {};
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      if (first_key + key + r < end) {
        rows[r] = *reinterpret_cast<const Bytes16*>(from + kv_row(args.kv, sequence, first_key + key + r) + dim);
      }
    }
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      auto* word = reinterpret_cast<std::uint32_t*>(to + (dim + 2 * j) * Shape::value_stride + key);
      word[0] = (rows[0].words[j] & 0xffffu) | rows[1].words[j] << 16;
      word[Shape::value_stride / 2] = rows[0].words[j] >> 16 | (rows[1].words[j] & 0xffff0000u);
    }
  }
}

template <class Shape, class T>
__device__ inline void load_values(const AttentionArgs& args, int sequence, const T* from, int first_key, int end, T* to) {
  if constexpr (Shape::Tile::values_by_dim) {
    load_rows_by_dim<Shape>(args, sequence, from, first_key, end, to);
  } else {
    load_rows<Shape>(args, sequence, from, first_key, end, to);
  }
}

/// The 16 rows of one wave: running maximum and sum of each row, sums of the values.
template <class T, class Shape>
struct FlashWave {
  using Tile = FlashTile<T>;
  using C = typename Tile::C;

  C out[Shape::dim_tiles];
  float maximum[Tile::row_slots];  ///< in units of log2
  float sum[Tile::row_slots];      ///< of this lane's keys alone
  KeyRange visible[Tile::row_slots];

  template <class Ends>
  __device__ void begin(const AttentionArgs& args, Ends ends, const FlashPlace& place) {
#pragma unroll
    for (int t = 0; t < Shape::dim_tiles; ++t) {
      out[t] = Tile::Tile::zero();
    }
#pragma unroll
    for (int s = 0; s < Tile::row_slots; ++s) {
      maximum[s] = -infinity;
      sum[s] = 0.0f;
      const int of_row = row(place, s);
      const int token = place.range.first_row + min(of_row, place.range.q_len - 1);
      visible[s] = visible_keys(args, ends, token, place.first_position + of_row, place.range.kv_len);
    }
  }

  /// The row within the sequence.
  __device__ static int row(const FlashPlace& place, int slot) {
    return place.tile_row + 16 * Shape::row_wave() + Tile::row(slot);
  }

  /// Folds the scores of `keys` keys into the rows' softmax; scores become weights. `factor` turns scores into log2 units.
  __device__ void fold(C (&scores)[Shape::key_tiles], float factor) {
    float scale[Tile::row_slots];
    float subtract[Tile::row_slots];
#pragma unroll
    for (int s = 0; s < Tile::row_slots; ++s) {
      float largest = -infinity;
#pragma unroll
      for (int t = 0; t < Shape::key_tiles; ++t) {
#pragma unroll
        for (int i = 0; i < Tile::c_elems; ++i) {
          if (Tile::slot(i) == s) {
            largest = fmaxf(largest, scores[t][i]);
          }
        }
      }
      const float now = fmaxf(maximum[s], Tile::template reduce<Max>(largest) * factor);
      subtract[s] = finite_maximum(now);
      scale[s] = exp2_fast(maximum[s] - subtract[s]);
      maximum[s] = now;
      sum[s] *= scale[s];
    }
#pragma unroll
    for (int t = 0; t < Shape::key_tiles; ++t) {
#pragma unroll
      for (int i = 0; i < Tile::c_elems; ++i) {
        const float weight = exp2_fast(__builtin_fmaf(scores[t][i], factor, -subtract[Tile::slot(i)]));
        sum[Tile::slot(i)] += weight;
        scores[t][i] = weight;
      }
    }
#pragma unroll
    for (int t = 0; t < Shape::dim_tiles; ++t) {
#pragma unroll
      for (int i = 0; i < Tile::c_elems; ++i) {
        out[t][i] *= scale[Tile::slot(i)];
      }
    }
  }

#if ROCMFORGE_DEVICE_AMD
  /// As fold, for a tile with one slot a lane. The maximum stays until a score exceeds it by `slack`: weights are then at
  /// most 2^slack, and hardly any tile after the first ones rescales the sums. Each row decides for itself; that some row of
  /// the wave rescales changes no bits of the others.
  __device__ void fold_keeping(C (&scores)[Shape::key_tiles], float factor) {
    static_assert(Tile::row_slots == 1);
    constexpr float slack = 8.0f;
    float largest = -infinity;
#pragma unroll
    for (int t = 0; t < Shape::key_tiles; ++t) {
#pragma unroll
      for (int i = 0; i < Tile::c_elems; ++i) {
        largest = fmaxf(largest, scores[t][i]);
      }
    }
    const auto rescale = [&](float now) __attribute__((always_inline)) {
      const float kept = now > maximum[0] + slack ? now : maximum[0];
      const float scale = exp2_fast(maximum[0] - finite_maximum(kept));
      maximum[0] = kept;
      sum[0] *= scale;
#pragma unroll
      for (int t = 0; t < Shape::dim_tiles; ++t) {
#pragma unroll
        for (int i = 0; i < Tile::c_elems; ++i) {
          out[t][i] *= scale;
        }
      }
    };
    // The lanes of a row exchange their maxima only where one is too large, which is rare. RDNA3 has no registers for that.
    if constexpr (Tile::maxima_of_each_tile) {
      const float now = Tile::template reduce<Max>(largest) * factor;
      if (__builtin_expect_with_probability(any_of_wave(now > maximum[0] + slack), 0, 0.999)) {
        rescale(now);
      }
    } else if (__builtin_expect_with_probability(any_of_wave(largest * factor > maximum[0] + slack), 0, 0.999)) {
      rescale(Tile::template reduce<Max>(largest) * factor);
    }
    const float subtract = finite_maximum(maximum[0]);
#pragma unroll
    for (int t = 0; t < Shape::key_tiles; ++t) {
#pragma unroll
      for (int i = 0; i < Tile::c_elems; ++i) {
        const float weight = exp2_fast(__builtin_fmaf(scores[t][i], factor, -subtract));
        sum[0] += weight;
        scores[t][i] = weight;
      }
    }
  }
#endif

  /// Soft-cap and additive mask; scores are in log2 units afterwards.
  __device__ void adjust(const AttentionArgs& args, const FlashPlace& place, int first_key,
                         C (&scores)[Shape::key_tiles]) const {
    const int lane_key = first_key + Tile::lane_offset();
#pragma unroll
    for (int s = 0; s < Tile::row_slots; ++s) {
      const std::int64_t token = place.range.first_row + min(row(place, s), place.range.q_len - 1);
      const float* mask = args.mask != nullptr ? args.mask + token * args.mask_stride : nullptr;
#pragma unroll
      for (int t = 0; t < Shape::key_tiles; ++t) {
#pragma unroll
        for (int i = 0; i < Tile::c_elems; ++i) {
          if (Tile::slot(i) == s) {
            scores[t][i] = score_log2(args, scores[t][i]);
            if (mask != nullptr) {
              scores[t][i] += log2_e * mask[min(lane_key + 16 * t + Tile::step(i), place.range.kv_len - 1)];
            }
          }
        }
      }
    }
  }

  __device__ void hide(int first_key, C (&scores)[Shape::key_tiles]) const {
#pragma unroll
    for (int s = 0; s < Tile::row_slots; ++s) {
      const int begin = visible[s].begin - first_key - Tile::lane_offset();
      const int end = visible[s].end - first_key - Tile::lane_offset();
#pragma unroll
      for (int t = 0; t < Shape::key_tiles; ++t) {
#pragma unroll
        for (int i = 0; i < Tile::c_elems; ++i) {
          if (Tile::slot(i) == s) {
            const int step = 16 * t + Tile::step(i);
            scores[t][i] = step >= begin && step < end ? scores[t][i] : -infinity;
          }
        }
      }
    }
  }

  __device__ void finish(const AttentionArgs& args, const FlashPlace& place) {
#pragma unroll
    for (int s = 0; s < Tile::row_slots; ++s) {
      float total = Tile::template reduce<Sum>(sum[s]);
      float largest = finite_maximum(maximum[s]);
      float factor = 1.0f;
      if (args.sinks != nullptr) {
        const float sink = args.sinks[place.head] * log2_e;
        const float now = fmaxf(largest, sink);
        factor = exp2_fast(largest - now);
        total = total * factor + exp2_fast(sink - now);
      }
      sum[s] = total > 0.0f ? factor / total : 0.0f;
    }
    switch (args.io_dtype) {
      case DType::f16:
        write(args, place, static_cast<half*>(args.out));
        break;
      case DType::bf16:
        write(args, place, static_cast<bfloat16*>(args.out));
        break;
      default:
        write(args, place, static_cast<float*>(args.out));
        break;
    }
  }

 private:
  template <class Out>
  __device__ void write(const AttentionArgs& args, const FlashPlace& place, Out* to) const {
#pragma unroll
    for (int s = 0; s < Tile::row_slots; ++s) {
      const int of_row = row(place, s);
      if (of_row < place.range.q_len) {
        Out* row_out = to + (std::int64_t{place.range.first_row + of_row} * args.q_heads + place.head) * Shape::head_dim +
                       Shape::part() * Shape::part_dims;
#pragma unroll
        for (int t = 0; t < Shape::dim_tiles; ++t) {
#pragma unroll
          for (int i = 0; i < Tile::c_elems; ++i) {
            if (Tile::slot(i) == s) {
              row_out[16 * t + Tile::lane_offset() + Tile::step(i)] = from_float<Out>(out[t][i] * sum[s]);
            }
          }
        }
      }
    }
  }
};

/// Grid: (query tiles of the longest sequence, query heads, sequences). Long rows come first.
template <class T, int head_dim, int parts = 1, int row_waves = 4, class Ends = OwnEnds>
__device__ __forceinline__ void flash_attention(const AttentionArgs& args, Ends ends = {}) {
  using Shape = FlashShape<T, head_dim, parts, row_waves>;
  using Tile = FlashTile<T>;
  using C = typename Tile::C;
  __shared__ Bytes16 shared_memory[flash_shared_elems<Ends, T, head_dim, parts, row_waves>() / 8];
  T* shared = reinterpret_cast<T*>(shared_memory);

  FlashPlace place;
  place.sequence = static_cast<int>(blockIdx.z);
  place.head = static_cast<int>(blockIdx.y);
  place.range = sequence_range(args, place.sequence);
  place.tile_row = static_cast<int>(gridDim.x - 1 - blockIdx.x) * Shape::rows;
  place.first_position = place.range.kv_len - place.range.q_len;
  if (place.tile_row >= place.range.q_len) {
    return;
  }
  const int last_row = min(place.tile_row + Shape::rows, place.range.q_len) - 1;
  const auto seen_by = [&](int row) {
    return visible_keys(args, ends, place.range.first_row + row, place.first_position + row, place.range.kv_len);
  };
  const KeyRange first = seen_by(place.tile_row);
  const KeyRange last = seen_by(last_row);  // ends rise with the rows
  const int end = last.end;
#if ROCMFORGE_FLASH_SPLIT
  if constexpr (flash_splits<Ends, T, head_dim, parts, row_waves>) {
    const std::int64_t kv_head = place.head / (args.q_heads / args.kv_heads);
    const T* k = static_cast<const T*>(args.kv.k) + kv_head * args.kv.head_stride;
    const T* v = static_cast<const T*>(args.kv.v) + kv_head * args.kv.head_stride;
    using Split = FlashResources<T, head_dim, parts, row_waves>;
    const int begin = first.begin / Split::keys * Split::keys;
    if constexpr (Split::simd_waves == 1) {
      flash_split_long<T, head_dim>(args, place, first, last, begin, k, v, shared);
    } else {
      flash_split<T, head_dim>(args, place, first, last, begin, k, v, shared);
    }
    return;
  }
#endif
  int first_key = first.begin / Shape::keys * Shape::keys;

  FlashWave<T, Shape> wave;
  wave.begin(args, ends, place);
  load_queries<Shape>(args, place, shared);
  __syncthreads();
  typename Tile::Query queries[Shape::queries_in_registers ? Shape::dim_tiles : 1];
  const T* own_queries = shared + 16 * Shape::row_wave() * Shape::stride + Shape::part() * Shape::part_dims;
  if constexpr (Shape::queries_in_registers) {
#pragma unroll
    for (int t = 0; t < Shape::dim_tiles; t += Shape::dims_at_once) {
      if constexpr (Shape::dims_at_once > 1) {
        Tile::template load_dims<Shape::dims_at_once>(own_queries + 16 * t, Shape::stride, queries + t);
      } else {
        queries[t] = Tile::load_query(own_queries + 16 * t, Shape::stride);
      }
    }
    __syncthreads();
  }

  const std::int64_t kv_head = place.head / (args.q_heads / args.kv_heads);
  const T* k = static_cast<const T*>(args.kv.k) + kv_head * args.kv.head_stride;
  const T* v = static_cast<const T*>(args.kv.v) + kv_head * args.kv.head_stride;
  T* keys = shared + Shape::kv_start;
  T* values = keys + Shape::key_elems;
  const bool adjusted = args.mask != nullptr || args.soft_cap_scale > 0.0f;
  const float factor = adjusted ? 1.0f : args.scale_log2;

#if ROCMFORGE_DEVICE_AMD
  if constexpr (Shape::ahead) {
    const bool changed = args.mask != nullptr || is_positive(args.soft_cap_scale);
    FlashExchange<Shape, C> exchange{reinterpret_cast<Bytes16*>(keys + Shape::kv_elems)};
    const auto score_tile = [&](const T* tile, C(&scores)[Shape::key_tiles]) {
      const T* of_part = tile + Shape::part() * Shape::part_dims;
#pragma unroll
      for (int t = 0; t < Shape::key_tiles; ++t) {
        scores[t] = Tile::Tile::zero();
      }
#pragma unroll
      for (int d = 0; d < Shape::dim_tiles; d += Shape::dims_at_once) {
#pragma unroll
        for (int t = 0; t < Shape::key_tiles; ++t) {
          typename Tile::Key operands[Shape::dims_at_once];
          Tile::template load_dims<Shape::dims_at_once>(of_part + 16 * t * Shape::stride + 16 * d, Shape::stride, operands);
#pragma unroll
          for (int i = 0; i < Shape::dims_at_once; ++i) {
            Tile::scores(scores[t], queries[d + i], operands[i]);
          }
        }
      }
#pragma unroll
      for (int t = 0; t < Shape::key_tiles; ++t) {
        settle(scores[t]);
      }
      exchange.give(scores);
    };
    const auto fold = [&](int at, C(&scores)[Shape::key_tiles]) {
      exchange.add(scores);
      if (changed) {
        wave.adjust(args, place, at, scores);
      }
      if (at < last.begin || at + Shape::keys > first.end) {
        wave.hide(at, scores);
      }
      wave.fold_keeping(scores, changed ? 1.0f : args.scale_log2);
    };
    const auto add_values = [&](const T* tile, const C(&scores)[Shape::key_tiles]) {
      const T* of_part = tile + Shape::part() * Shape::value_start(Shape::part_dims);
#pragma unroll
      for (int t = 0; t < Shape::key_tiles; ++t) {
        const typename Tile::Weights weights = Tile::weights(scores[t]);
#pragma unroll
        for (int d = 0; d < Shape::dim_tiles; ++d) {
          Tile::values(wave.out[d], weights, FlashValueLoads<Shape, T>::operand(of_part, t, d));
        }
      }
#pragma unroll
      for (int d = 0; d < Shape::dim_tiles; ++d) {
        settle(wave.out[d]);
      }
    };
    walk_keys_ahead<Shape, T, C>(args, place.sequence, {k, v, first_key, end}, keys, values, score_tile, fold, add_values);
    wave.finish(args, place);
    return;
  }
#endif

  if (first_key < end) {
    load_rows<Shape>(args, place.sequence, k, first_key, end, keys);
  }
  commit_copies();
  for (; first_key < end; first_key += Shape::keys) {
    load_values<Shape>(args, place.sequence, v, first_key, end, values);
    commit_copies();
    wait_copies<1>();
    __syncthreads();

    C scores[Shape::key_tiles];
#pragma unroll
    for (int t = 0; t < Shape::key_tiles; ++t) {
      scores[t] = Tile::Tile::zero();
    }
#pragma unroll
    for (int d = 0; d < Shape::dim_tiles; ++d) {
      typename Tile::Query query;
      if constexpr (Shape::queries_in_registers) {
        query = queries[d];
      } else {
        query = Tile::load_query(own_queries + 16 * d, Shape::stride);
      }
#pragma unroll
      for (int t = 0; t < Shape::key_tiles; ++t) {
        Tile::scores(scores[t], query, Tile::load_key(keys + 16 * t * Shape::stride + 16 * d, Shape::stride));
      }
    }
#pragma unroll
    for (int t = 0; t < Shape::key_tiles; ++t) {
      settle(scores[t]);
    }
    __syncthreads();
    if (first_key + Shape::keys < end) {
      load_rows<Shape>(args, place.sequence, k, first_key + Shape::keys, end, keys);
    }
    commit_copies();

    if (adjusted) {
      wave.adjust(args, place, first_key, scores);
    }
    if (first_key < last.begin || first_key + Shape::keys > first.end) {
      wave.hide(first_key, scores);
    }
    wave.fold(scores, factor);
    wait_copies<1>();
    __syncthreads();
#pragma unroll
    for (int t = 0; t < Shape::key_tiles; ++t) {
      const typename Tile::Weights weights = Tile::weights(scores[t]);
#pragma unroll
      for (int d = 0; d < Shape::dim_tiles; ++d) {
        const T* from = Tile::values_by_dim ? values + 16 * d * Shape::value_stride + 16 * t
                                            : values + 16 * t * Shape::value_stride + 16 * d;
        Tile::values(wave.out[d], weights, Tile::load_value(from, Shape::value_stride));
      }
    }
#pragma unroll
    for (int d = 0; d < Shape::dim_tiles; ++d) {
      settle(wave.out[d]);
    }
    __syncthreads();
  }
  wait_copies<0>();
  wave.finish(args, place);
}

}  // namespace rocmforge::gpu
