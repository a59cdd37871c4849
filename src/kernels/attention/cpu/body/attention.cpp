// Attention of one chunk of keys for a tile of query rows. Both products are the same small matrix product: a tile of rows
// times vectors of columns, held in registers, with the cache's elements turned into floats as they are loaded (each once
// for all rows of the tile). Every score is one chain of multiply-adds over the head's dimensions and every sum one chain
// over the keys, so the bits of a row's result don't depend on which rows share its tile.

#include "kernels/launch/cpu/body/operations.h"
#include "kernels/tile/cpu/simd.h"

namespace rocmforge::ROCMFORGE_ISA {
namespace {

constexpr float infinity = __builtin_huge_valf();

/// Some rows of a matrix product: out[r, c] (+)= sum over k of a[r, k] * b[k, c].
template <class T>
struct Product {
  const float* a;
  int64_t a_stride;
  const T* b;
  int64_t b_stride;
  float* out;
  int64_t out_stride;
  int32_t depth;  ///< of the sum
  bool add;       ///< continues the sums that `out` holds
  const T* next;  ///< of the same shape as b: to be prefetched; b itself for nothing
};

template <int rows, int vectors, class T>
inline void multiply_tile(const Product<T>& p, int64_t row, int64_t column) {
  const float* a = p.a + row * p.a_stride;
  const T* b = p.b + column;
  const T* next = p.next + column;
  constexpr int lines = (vectors * vec_width * static_cast<int>(sizeof(T)) + 63) / 64;
  float* out = p.out + row * p.out_stride + column;
  Vec sums[rows][vectors];
#pragma GCC unroll 16
  for (int r = 0; r < rows; ++r) {
#pragma GCC unroll 2
    for (int v = 0; v < vectors; ++v) {
      sums[r][v] = p.add ? load(out + r * p.out_stride + v * vec_width) : zero_vec();
    }
  }
  for (int32_t k = 0; k < p.depth; ++k) {
    // A block of one head is a page of memory or less, too short for the hardware prefetcher to detect the stream.
    for (int line = 0; sizeof(T) < 4 && line < lines; ++line) {
      __builtin_prefetch(reinterpret_cast<const char*>(next + k * p.b_stride) + 64 * line);
    }
    Vec right[vectors];
#pragma GCC unroll 2
    for (int v = 0; v < vectors; ++v) {
      right[v] = load(b + k * p.b_stride + v * vec_width);
    }
#pragma GCC unroll 16
    for (int r = 0; r < rows; ++r) {
      const Vec left = broadcast(a[r * p.a_stride + k]);
#pragma GCC unroll 2
      for (int v = 0; v < vectors; ++v) {
        sums[r][v] = fma(left, right[v], sums[r][v]);
      }
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < rows; ++r) {
#pragma GCC unroll 2
    for (int v = 0; v < vectors; ++v) {
      store(out + r * p.out_stride + v * vec_width, sums[r][v]);
    }
  }
}

template <int rows, class T>
inline void multiply_rows(const Product<T>& p, int64_t row, int64_t column, int64_t column_end) {
  for (; column + 2 * vec_width <= column_end; column += 2 * vec_width) {
    multiply_tile<rows, 2>(p, row, column);
  }
  if (column < column_end) {
    multiply_tile<rows, 1>(p, row, column);
  }
}

template <int rows, class T>
inline void multiply_counted_rows(int32_t count, const Product<T>& p, int64_t row, int64_t column, int64_t column_end) {
  if (count == rows) {
    multiply_rows<rows>(p, row, column, column_end);
  } else if constexpr (rows > 1) {
    multiply_counted_rows<rows - 1>(count, p, row, column, column_end);
  }
}

/// `columns` is a multiple of the vector width. The rows are shared out evenly between as few tiles as there can be.
template <class T>
void multiply(const Product<T>& p, int32_t rows, int32_t columns) {
  // Columns in pairs of vectors outside, so that a strip of b stays in the first cache while all rows pass over it.
  for (int32_t column = 0; column < columns; column += 2 * vec_width) {
    const int32_t end = column + 2 * vec_width < columns ? column + 2 * vec_width : columns;
    int32_t tiles = (rows + max_tile_rows - 1) / max_tile_rows;
    for (int32_t row = 0; row < rows; --tiles) {
      const int32_t count = (rows - row + tiles - 1) / tiles;
      multiply_counted_rows<max_tile_rows>(count, p, row, column, end);
      row += count;
    }
  }
}

/// Keys [begin, end) of the chunk, as the unit's rows see them.
struct KeyRange {
  int32_t begin;
  int32_t end;
};

inline KeyRange visible_keys(const AttentionUnit& unit, int32_t first_row, int32_t last_row, int32_t chunk) {
  const int32_t start = chunk * attention_chunk;
  int32_t begin = first_visible(unit, first_row) - start;
  int32_t end = end_visible(unit, last_row) - start;
  begin = begin < 0 ? 0 : begin;
  end = end > attention_chunk ? attention_chunk : end;
  return {begin, end < begin ? begin : end};
}

/// This KV head's K or V, `offset` bytes behind the start of the block that holds `position`.
template <class T>
inline const T* head_at(const AttentionUnit& unit, int32_t position, int64_t offset) {
  return reinterpret_cast<const T*>(unit.cache + unit.blocks[position / unit.block_tokens] * unit.block_bytes + offset);
}

/// Calls f(first key in the chunk, count, the head's K or V in the block, first key in the block) for the blocks under some
/// keys.
template <class T, class F>
inline void for_each_block(const AttentionUnit& unit, int32_t chunk, KeyRange keys, int64_t offset, F f) {
  for (int32_t key = keys.begin; key < keys.end;) {
    const int32_t position = chunk * attention_chunk + key;
    const int32_t slot = position % unit.block_tokens;
    const int32_t left = unit.block_tokens - slot;
    const int32_t count = left < keys.end - key ? left : keys.end - key;
    f(key, count, head_at<T>(unit, position, offset), slot);
    key += count;
  }
}

/// head_at, or `otherwise` when the unit doesn't read that far.
template <class T>
inline const T* upcoming(const AttentionUnit& unit, int32_t position, int64_t offset, const T* otherwise) {
  return position < end_visible(unit, unit.row_end - 1) ? head_at<T>(unit, position, offset) : otherwise;
}

/// The range widened to whole vectors of any width; blocks hold a multiple of 16 keys.
inline KeyRange whole_vectors(KeyRange keys) { return {keys.begin / 16 * 16, (keys.end + 15) / 16 * 16}; }

template <class T>
void copy_rows(const T* from, int64_t from_stride, int32_t rows, int32_t columns, float* to, int64_t to_stride) {
  for (int32_t r = 0; r < rows; ++r) {
    int32_t c = 0;
    for (; c + vec_width <= columns; c += vec_width) {
      store(to + r * to_stride + c, load(from + r * from_stride + c));
    }
    if (c < columns) {
      T last[vec_width] = {};
      memcpy(last, from + r * from_stride + c, static_cast<size_t>(columns - c) * sizeof(T));
      store(to + r * to_stride + c, load(last));
    }
  }
}

template <class T>
inline void copy_keys(const AttentionUnit& unit, const T* head, int32_t slot, int32_t count, float* to) {
  copy_rows(head + slot, unit.block_tokens, unit.head_dim, count, to, attention_score_stride);
}

template <class T>
inline void copy_values(const AttentionUnit& unit, const T* head, int32_t slot, int32_t count, float* to,
                        int64_t to_stride) {
  copy_rows(head + int64_t{slot} * unit.head_dim, unit.head_dim, count, unit.head_dim, to, to_stride);
}

/// A byte of a head in a quantised type. Those of a chunk are always turned into floats first, once for all rows.
struct Coded {
  uint8_t byte;
};
template <class T>
constexpr bool is_coded = false;
template <>
constexpr bool is_coded<Coded> = true;

constexpr int32_t quant_dims = 32;  ///< that share a scale

inline void halves_to_floats(const Coded* bytes, int32_t count, float* to) {
  const HalfBits* from = reinterpret_cast<const HalfBits*>(bytes);
  int32_t i = 0;
  for (; i + vec_width <= count; i += vec_width) {
    store(to + i, load(from + i));
  }
  if (i < count) {
    HalfBits last[vec_width] = {};
    float floats[vec_width];
    memcpy(last, from + i, static_cast<size_t>(count - i) * sizeof(HalfBits));
    store(floats, load(last));
    memcpy(to + i, floats, static_cast<size_t>(count - i) * sizeof(float));
  }
}

/// A coding whose fields the compiler knows, so that each becomes a loop of its own.
template <int32_t bits, bool fifth, bool minimum, bool table>
struct FixedCoding {
  static constexpr KvCoding value{bits, fifth, minimum, table};
};
template <class F>
inline void with_coding(const KvCoding& coding, F f) {
  if (coding.bits == 8) {
    f(FixedCoding<8, false, false, false>{});
  } else if (coding.table) {
    f(FixedCoding<4, false, false, true>{});
  } else if (coding.fifth) {
    coding.minimum ? f(FixedCoding<4, true, true, false>{}) : f(FixedCoding<4, true, false, false>{});
  } else {
    coding.minimum ? f(FixedCoding<4, false, true, false>{}) : f(FixedCoding<4, false, false, false>{});
  }
}

/// `count` keys from `slot` on of a head's K [head_dim, block_tokens] to columns of `to`.
template <class Fixed>
void decode_keys(const AttentionUnit& unit, const Coded* head, int32_t slot, int32_t count, float* to) {
  constexpr KvCoding coding = Fixed::value;
  const KvArrays arrays = kv_arrays(coding, unit.block_tokens, unit.head_dim);
  const auto row = [&](int64_t array, int32_t index, int32_t bytes) {
    return head + array + (int64_t{index} * unit.block_tokens + slot) * bytes;
  };
  float scales[attention_chunk];
  float minima[attention_chunk] = {};
  for (int32_t dim = 0; dim < unit.head_dim; ++dim) {
    if (dim % quant_dims == 0) {
      halves_to_floats(row(arrays.scales, dim / quant_dims, 2), count, scales);
      if (coding.minimum) {
        halves_to_floats(row(arrays.minima, dim / quant_dims, 2), count, minima);
      }
    }
    const Coded* codes = row(0, dim * coding.bits / 8, 1);
    const Coded* fifths = coding.fifth ? row(arrays.fifths, dim / 8, 1) : codes;
    const int32_t low = coding.bits == 4 ? dim % 2 * 4 : 0;
    float* out = to + int64_t{dim} * attention_score_stride;
    for (int32_t i = 0; i < count; ++i) {
      uint32_t code = codes[i].byte >> low & (coding.bits == 4 ? 15u : 255u);
      code |= coding.fifth ? (fifths[i].byte >> (dim % 8) & 1u) << 4 : 0u;
      out[i] = static_cast<float>(kv_number(coding, code)) * scales[i] + minima[i];
    }
  }
}

/// `count` rows from `slot` on of a head's V [block_tokens, head_dim].
template <class Fixed>
void decode_values(const AttentionUnit& unit, const Coded* head, int32_t slot, int32_t count, float* to, int64_t to_stride) {
  constexpr KvCoding coding = Fixed::value;
  const KvArrays arrays = kv_arrays(coding, unit.block_tokens, unit.head_dim);
  const int32_t groups = arrays.groups;
  for (int32_t r = 0; r < count; ++r) {
    const int64_t token = slot + r;
    for (int32_t group = 0; group < groups; ++group) {
      float scale;
      float minimum = 0.0f;
      halves_to_floats(head + arrays.scales + 2 * (token * groups + group), 1, &scale);
      if (coding.minimum) {
        halves_to_floats(head + arrays.minima + 2 * (token * groups + group), 1, &minimum);
      }
      const Coded* codes = head + token * arrays.code_bytes + group * quant_dims * coding.bits / 8;
      const Coded* fifths = head + arrays.fifths + token * arrays.fifth_bytes + group * 4;
      float* out = to + r * to_stride + group * quant_dims;
      for (int32_t dim = 0; dim < quant_dims; ++dim) {
        uint32_t code = codes[dim * coding.bits / 8].byte;
        code = coding.bits == 4 ? code >> (dim % 2 * 4) & 15u : code;
        code |= coding.fifth ? (fifths[dim / 8].byte >> (dim % 8) & 1u) << 4 : 0u;
        out[dim] = static_cast<float>(kv_number(coding, code)) * scale + minimum;
      }
    }
  }
}

template <>
inline void copy_keys(const AttentionUnit& unit, const Coded* head, int32_t slot, int32_t count, float* to) {
  with_coding(unit.k.coding, [&](auto fixed) { decode_keys<decltype(fixed)>(unit, head, slot, count, to); });
}

template <>
inline void copy_values(const AttentionUnit& unit, const Coded* head, int32_t slot, int32_t count, float* to,
                        int64_t to_stride) {
  with_coding(unit.v.coding, [&](auto fixed) { decode_values<decltype(fixed)>(unit, head, slot, count, to, to_stride); });
}

/// Keys of a chunk's latent plane as floats: rows of scratch.values, which are V too, and columns of scratch.keys.
template <class T>
void copy_latents(const AttentionUnit& unit, const AttentionScratch& scratch, int32_t chunk, KeyRange keys) {
  const int64_t value_stride = padded_head_dim(unit.head_dim) + 16;
  for_each_block<T>(unit, chunk, keys, unit.k_offset, [&](int32_t key, int32_t count, const T* head, int32_t slot) {
    copy_values(unit, head, slot, count, scratch.values + key * value_stride, value_stride);
  });
  constexpr int32_t tile = 16;  // keys, so that a column's part is one line of the cache
  for (int32_t first = keys.begin; first < keys.end; first += tile) {
    const int32_t count = keys.end - first < tile ? keys.end - first : tile;
    for (int32_t dim = 0; dim < unit.head_dim; ++dim) {
      for (int32_t i = 0; i < count; ++i) {
        scratch.keys[int64_t{dim} * attention_score_stride + first + i] = scratch.values[(first + i) * value_stride + dim];
      }
    }
  }
}

template <class T>
void score_keys(const AttentionUnit& unit, const AttentionScratch& scratch, int32_t chunk, KeyRange keys, bool copy) {
  const int32_t rows = unit.row_end - unit.row_begin;
  const int64_t query_stride = padded_head_dim(unit.head_dim);
  const KeyRange wide = whole_vectors(keys);
  if (unit.latent) {
    copy_latents<T>(unit, scratch, chunk, keys);
  }
  for_each_block<T>(unit, chunk, unit.latent ? KeyRange{} : wide, unit.k_offset,
                    [&](int32_t key, int32_t count, const T* head, int32_t slot) {
                      if (copy) {
                        copy_keys(unit, head, slot, count, scratch.keys + key);
                      } else if constexpr (!is_coded<T>) {
                        const T* k = head + slot;
                        const bool more = key + count < wide.end;
                        const T* next = more ? upcoming(unit, chunk * attention_chunk + key + count, unit.k_offset, k)
                                             : upcoming(unit, chunk * attention_chunk + keys.begin, unit.v_offset, k);
                        multiply<T>({scratch.queries, query_stride, k, unit.block_tokens, scratch.scores + key,
                                     attention_score_stride, unit.head_dim, false, next},
                                    rows, count);
                      }
                    });
  if (copy) {
    multiply<float>({scratch.queries, query_stride, scratch.keys + wide.begin, attention_score_stride,
                     scratch.scores + wide.begin, attention_score_stride, unit.head_dim, false, scratch.keys + wide.begin},
                    rows, wide.end - wide.begin);
  }
}

template <class T>
void sum_values(const AttentionUnit& unit, const AttentionScratch& scratch, int32_t chunk, KeyRange keys, bool copy,
                float* sums) {
  const int32_t rows = unit.row_end - unit.row_begin;
  const int32_t padded = padded_head_dim(unit.value_dim);
  const int64_t value_stride = padded_head_dim(unit.head_dim) + 16;
  for_each_block<T>(unit, chunk, unit.latent ? KeyRange{} : keys, unit.v_offset,
                    [&](int32_t key, int32_t count, const T* head, int32_t slot) {
                      if (copy) {
                        copy_values(unit, head, slot, count, scratch.values + key * value_stride, value_stride);
                      } else if constexpr (!is_coded<T>) {
                        const T* v = head + int64_t{slot} * unit.head_dim;
                        const int32_t after = chunk * attention_chunk + key + count;
                        const T* next = upcoming(unit, after, key + count < keys.end ? unit.v_offset : unit.k_offset, v);
                        multiply<T>({scratch.scores + key, attention_score_stride, v, unit.head_dim, sums, padded, count,
                                     key > keys.begin, next},
                                    rows, unit.head_dim);
                      }
                    });
  if (copy) {
    const int32_t columns = (unit.value_dim + vec_width - 1) / vec_width * vec_width;
    multiply<float>({scratch.scores + keys.begin, attention_score_stride, scratch.values + keys.begin * value_stride,
                     value_stride, sums, padded, keys.end - keys.begin, false, scratch.values + keys.begin * value_stride},
                    rows, columns);
  }
}

/// Turns one row of scores into exp(score - largest), 0 for masked keys, over the unit's keys.
inline void softmax_row(const AttentionUnit& unit, float* scores, KeyRange unit_keys, KeyRange keys, float* largest,
                        float* weight) {
  const KeyRange wide = whole_vectors(unit_keys);
  if (keys.begin >= keys.end) {
    for (int32_t key = wide.begin; key < wide.end; ++key) {
      scores[key] = 0.0f;
    }
    *largest = -infinity;
    *weight = 0.0f;
    return;
  }
  if (unit.soft_cap > 0.0f) {
    const Vec cap = broadcast(unit.soft_cap);
    for (int32_t key = wide.begin; key < wide.end; key += vec_width) {
      store(scores + key, cap * hyperbolic_tangent(load(scores + key) / cap));
    }
  }
  for (int32_t key = wide.begin; key < keys.begin; ++key) {
    scores[key] = -infinity;
  }
  for (int32_t key = keys.end; key < wide.end; ++key) {
    scores[key] = -infinity;
  }
  Vec top = broadcast(-infinity);
  for (int32_t key = wide.begin; key < wide.end; key += vec_width) {
    top = maximum(top, load(scores + key));
  }
  *largest = max_lane(top);
  const Vec shift = broadcast(*largest);
  Vec sum = zero_vec();
  for (int32_t key = wide.begin; key < wide.end; key += vec_width) {
    const Vec p = exponential_of_negative(load(scores + key) - shift);
    store(scores + key, p);
    sum = sum + p;
  }
  *weight = sum_lanes(sum);
}

/// Calls f with a pointer to the element of `store`.
template <class F>
inline void with_element(const KvStore& store, F f) {
  switch (store.element) {
    case KvElement::f32:
      f(static_cast<const float*>(nullptr));
      break;
    case KvElement::f16:
      f(static_cast<const HalfBits*>(nullptr));
      break;
    case KvElement::bf16:
      f(static_cast<const BfloatBits*>(nullptr));
      break;
    case KvElement::coded:
      f(static_cast<const Coded*>(nullptr));
      break;
  }
}

/// With many rows, converting a chunk once into floats is cheaper than converting it again for every tile of rows.
template <class T>
inline bool copies(const AttentionUnit& unit) {
  const int32_t rows = unit.row_end - unit.row_begin;
  return is_coded<T> || unit.latent || (sizeof(T) != sizeof(float) && rows > 2 * max_tile_rows);
}

}  // namespace

void attention_load(const AttentionUnit& unit, const AttentionScratch& scratch) {
  const int32_t padded = padded_head_dim(unit.head_dim);
  for (int32_t row = unit.row_begin; row < unit.row_end; ++row) {
    const float* q = unit.q + row / unit.group * unit.q_stride + row % unit.group * unit.head_dim;
    float* scaled = scratch.queries + int64_t{row - unit.row_begin} * padded;
    for (int32_t i = 0; i < unit.head_dim; ++i) {
      scaled[i] = q[i] * unit.scale;
    }
  }
}

void attention_begin(const AttentionUnit& unit, int32_t row, const AttentionState& state) {
  const bool sink = unit.sinks != nullptr;
  const int32_t padded = padded_head_dim(unit.value_dim);
  state.largest[row] = sink ? unit.sinks[(unit.row_begin + row) % unit.group] : -infinity;
  state.weight[row] = sink ? 1.0f : 0.0f;
  memset(state.sums + int64_t{row} * padded, 0, static_cast<size_t>(padded) * sizeof(float));
}

void attention_chunk_softmax(const AttentionUnit& unit, const AttentionScratch& scratch, int32_t chunk,
                             const AttentionState& part) {
  const KeyRange keys = visible_keys(unit, unit.row_begin, unit.row_end - 1, chunk);
  with_element(unit.k, [&]<class T>(const T*) { score_keys<T>(unit, scratch, chunk, keys, copies<T>(unit)); });
  for (int32_t r = 0; r < unit.row_end - unit.row_begin; ++r) {
    const int32_t row = unit.row_begin + r;
    softmax_row(unit, scratch.scores + r * attention_score_stride, keys, visible_keys(unit, row, row, chunk),
                part.largest + r, part.weight + r);
  }
  with_element(unit.v, [&]<class T>(const T*) {
    sum_values<T>(unit, scratch, chunk, keys, copies<T>(unit) || unit.head_dim % vec_width != 0, part.sums);
  });
}

void attention_fold(const AttentionUnit& unit, int32_t row, const AttentionState& state, const AttentionState& part) {
  if (part.largest[row] == -infinity) {
    return;  // the row sees none of the chunk's keys
  }
  const float largest = state.largest[row] > part.largest[row] ? state.largest[row] : part.largest[row];
  // One of the two is exp(0) = 1.
  const Vec smaller = exponential_of_negative(broadcast(-__builtin_fabsf(state.largest[row] - part.largest[row])));
  const bool grows = part.largest[row] > state.largest[row];
  const Vec keep = grows ? smaller : broadcast(1.0f);
  const Vec add = grows ? broadcast(1.0f) : smaller;
  state.largest[row] = largest;
  store_partial(state.weight + row, fma(broadcast(state.weight[row]), keep, broadcast(part.weight[row]) * add), 1);
  const int32_t padded = padded_head_dim(unit.value_dim);
  float* sums = state.sums + int64_t{row} * padded;
  const float* more = part.sums + int64_t{row} * padded;
  for (int32_t i = 0; i < unit.value_dim; i += vec_width) {
    store(sums + i, fma(load(sums + i), keep, load(more + i) * add));
  }
}

void attention_finish(const AttentionUnit& unit, int32_t row, const AttentionState& state) {
  const int32_t index = unit.row_begin + row;
  float* out = unit.out + index / unit.group * unit.out_stride + index % unit.group * unit.value_dim;
  const float* sums = state.sums + int64_t{row} * padded_head_dim(unit.value_dim);
  const float scale = state.weight[row] > 0.0f ? 1.0f / state.weight[row] : 0.0f;
  for (int32_t i = 0; i < unit.value_dim; ++i) {
    out[i] = sums[i] * scale + 0.0f;  // -0 becomes 0: its sign could depend on masked keys
  }
  if (unit.v_rotated) {
    const int32_t block = unit.value_dim & -unit.value_dim;
    walsh_hadamard(out, unit.value_dim, block, hadamard_factor(block));
  }
}

}  // namespace rocmforge::ROCMFORGE_ISA
