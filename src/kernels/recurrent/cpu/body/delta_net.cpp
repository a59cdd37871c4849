#include "kernels/launch/cpu/body/operations.h"
#include "kernels/tile/cpu/simd.h"

namespace rocmforge::ROCMFORGE_ISA {
namespace {

inline Vec load_some(const float* from, int32_t left) { return left >= vec_width ? load(from) : load_partial(from, left); }

inline void store_some(float* to, Vec value, int32_t left) {
  if (left >= vec_width) {
    store(to, value);
  } else {
    store_partial(to, value, left);
  }
}

inline float dot_of(const float* a, const float* b, int32_t count) {
  Vec sum = zero_vec();
  for (int32_t i = 0; i < count; i += vec_width) {
    sum = fma(load_some(a + i, count - i), load_some(b + i, count - i), sum);
  }
  return sum_lanes(sum);
}

inline void scaled(const float* x, float factor, int32_t count, float* out) {
  for (int32_t i = 0; i < count; i += vec_width) {
    store_some(out + i, load_some(x + i, count - i) * broadcast(factor), count - i);
  }
}

inline void multiplied(const float* x, const float* factors, int32_t count, float* out) {
  for (int32_t i = 0; i < count; i += vec_width) {
    store_some(out + i, load_some(x + i, count - i) * load_some(factors + i, count - i), count - i);
  }
}

/// What a state is multiplied with before its decay: k and q, times the decays of keys if there are any.
struct Readers {
  const float* k;
  const float* q;
};

/// Some columns of the state, [columns, key_dim], which all read the same q and k.
template <int columns>
inline void update(const DeltaNetRow& row, const Readers& readers, int32_t column, float overlap) {
  float* state = row.state + static_cast<int64_t>(column) * row.key_dim;
  Vec recalled[columns];
  Vec asked[columns];
  for (int c = 0; c < columns; ++c) {
    recalled[c] = asked[c] = zero_vec();
  }
  for (int32_t i = 0; i < row.key_dim; i += vec_width) {
    const int32_t left = row.key_dim - i;
    const Vec k = load_some(readers.k + i, left);
    const Vec q = load_some(readers.q + i, left);
    for (int c = 0; c < columns; ++c) {
      const Vec value = load_some(state + static_cast<int64_t>(c) * row.key_dim + i, left);
      recalled[c] = fma(value, k, recalled[c]);
      asked[c] = fma(value, q, asked[c]);
    }
  }
  Vec change[columns];
  for (int c = 0; c < columns; ++c) {
    const float delta = row.share * (row.v[column + c] - row.decay * sum_lanes(recalled[c]));
    row.out[column + c] = row.decay * sum_lanes(asked[c]) + delta * overlap;
    change[c] = broadcast(delta);
  }
  const Vec common = broadcast(row.decay);
  for (int32_t i = 0; i < row.key_dim; i += vec_width) {
    const int32_t left = row.key_dim - i;
    const Vec k = load_some(row.unit_k + i, left);
    const Vec decay = row.decays != nullptr ? load_some(row.decays + i, left) : common;
    for (int c = 0; c < columns; ++c) {
      float* at = state + static_cast<int64_t>(c) * row.key_dim + i;
      store_some(at, fma(change[c], k, load_some(at, left) * decay), left);
    }
  }
}

}  // namespace

void delta_net_row(const DeltaNetRow& row) {
  scaled(row.k, 1.0f / __builtin_sqrtf(dot_of(row.k, row.k, row.key_dim) + row.norm_eps), row.key_dim, row.unit_k);
  const float q_norm = __builtin_sqrtf(dot_of(row.q, row.q, row.key_dim) + row.norm_eps);
  scaled(row.q, 1.0f / (q_norm * __builtin_sqrtf(static_cast<float>(row.key_dim))), row.key_dim, row.unit_q);
  const float overlap = dot_of(row.unit_k, row.unit_q, row.key_dim);
  Readers readers{row.unit_k, row.unit_q};
  if (row.decays != nullptr) {
    float* const decayed = row.decays + row.key_dim;
    multiplied(row.unit_k, row.decays, row.key_dim, decayed);
    multiplied(row.unit_q, row.decays, row.key_dim, decayed + row.key_dim);
    readers = {decayed, decayed + row.key_dim};
  }
  int32_t column = 0;
  for (; column + 4 <= row.value_dim; column += 4) {
    update<4>(row, readers, column, overlap);
  }
  for (; column < row.value_dim; ++column) {
    update<1>(row, readers, column, overlap);
  }
}

void output_gate_head(const OutputGateHead& head) {
  Vec squares = zero_vec();
  for (int32_t i = 0; head.weight != nullptr && i < head.dim; i += vec_width) {
    const Vec x = load_some(head.x + i, head.dim - i);
    squares = fma(x, x, squares);
  }
  const float mean = sum_lanes(squares) / static_cast<float>(head.dim);
  const Vec scale = broadcast(1.0f / __builtin_sqrtf(mean + head.eps));
  for (int32_t i = 0; i < head.dim; i += vec_width) {
    const int32_t left = head.dim - i;
    const Vec gate = load_some(head.gate + i, left);
    Vec value = load_some(head.x + i, left);
    if (head.weight != nullptr) {
      value = value * scale * load_some(head.weight + i, left);
    }
    if (head.form != OutputGateHead::Form::sigmoid) {
      value = value * gate;
    }
    if (head.form != OutputGateHead::Form::plain) {
      value = value / (broadcast(1.0f) + exponential(zero_vec() - gate));
    }
    store_some(head.out + i, value, left);
  }
}

}  // namespace rocmforge::ROCMFORGE_ISA
