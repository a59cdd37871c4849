#include "kernels/launch/cpu/body/operations.h"
#include "kernels/tile/cpu/simd.h"

namespace rocmforge::ROCMFORGE_ISA {
namespace {

/// Converts to the cache's element with rounding to nearest even; `to` has room for whole vectors.
inline void convert(const float* from, int32_t count, HalfBits* to) {
#if defined(ROCMFORGE_ISA_generic)
  for (int32_t i = 0; i < count; ++i) {
    uint32_t bits;
    memcpy(&bits, from + i, sizeof bits);
    const uint32_t sign = bits >> 16 & 0x8000u;
    const uint32_t magnitude = bits & 0x7fffffffu;
    uint32_t half;
    if (magnitude > 0x7f800000u) {
      half = 0x7e00u;
    } else if (magnitude >= 0x477ff000u) {  // 65520 and above
      half = 0x7c00u;
    } else if (magnitude < 0x38800000u) {  // denormal: adding 0.5 lines the mantissa up for the hardware's rounding
      float shifted;
      memcpy(&shifted, &magnitude, sizeof shifted);
      shifted += 0.5f;
      memcpy(&half, &shifted, sizeof half);
      half -= 0x3f000000u;
    } else {
      half = (magnitude + 0xfffu + (magnitude >> 13 & 1u) - 0x38000000u) >> 13;
    }
    to[i].bits = static_cast<uint16_t>(sign | half);
  }
#else
  int32_t i = 0;
  for (; i + vec_width <= count; i += vec_width) {
    store(to + i, load(from + i));
  }
  if (i < count) {
    store(to + i, load_partial(from + i, count - i));
  }
#endif
}

inline void convert(const float* from, int32_t count, BfloatBits* to) {
  for (int32_t i = 0; i < count; ++i) {
    uint32_t bits;
    memcpy(&bits, from + i, sizeof bits);
    const uint32_t rounded = (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
    to[i].bits = static_cast<uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? bits >> 16 | 0x40u : rounded);
  }
}

inline void convert(const float* from, int32_t count, float* to) {
  memcpy(to, from, static_cast<size_t>(count) * sizeof(float));
}

template <class T>
inline void append(const float* head, int32_t head_dim, const KvTarget& target, uint8_t* to) {
  T elements[max_rope_head_dim];
  convert(head, head_dim, elements);
  T* place = reinterpret_cast<T*>(to) + (target.by_dim ? int64_t{target.slot} : int64_t{target.slot} * head_dim);
  if (!target.by_dim) {
    memcpy(place, elements, static_cast<size_t>(head_dim) * sizeof(T));
    return;
  }
  for (int32_t i = 0; i < head_dim; ++i) {
    place[int64_t{i} * target.block_tokens] = elements[i];
  }
}

/// `value` as binary16, and as what that stands for.
inline HalfBits rounded_to_half(float& value) {
  float values[vec_width] = {value};
  HalfBits bits[vec_width] = {};
  convert(values, 1, bits);
  store(values, load(bits));
  value = values[0];
  return bits[0];
}

/// A token's places in the arrays of a head (ops/kv_codes.h).
struct CodedToken {
  const KvTarget& target;
  KvArrays arrays;
  uint8_t* head;

  int64_t place(int64_t index, int64_t count) const {
    return target.by_dim ? index * target.block_tokens + target.slot : target.slot * count + index;
  }
  void put_code(int32_t index, uint32_t byte) const { head[place(index, arrays.code_bytes)] = static_cast<uint8_t>(byte); }
  void put_fifths(int32_t index, uint32_t byte) const {
    head[arrays.fifths + place(index, arrays.fifth_bytes)] = static_cast<uint8_t>(byte);
  }
  void put_half(int64_t array, int32_t group, HalfBits bits) const {
    memcpy(head + array + 2 * place(group, arrays.groups), &bits, sizeof bits);
  }
};

/// One group of 32 dimensions.
inline void append_group(const CodedToken& token, const float* values, int32_t group) {
  const KvCoding& coding = token.target.store.coding;
  float least = values[0];
  float largest = values[0];
  for (int32_t i = 1; i < 32; ++i) {
    least = values[i] < least ? values[i] : least;
    largest = values[i] > largest ? values[i] : largest;
  }
  float scale = kv_scale(coding, least, largest);
  token.put_half(token.arrays.scales, group, rounded_to_half(scale));
  if (coding.minimum) {
    token.put_half(token.arrays.minima, group, rounded_to_half(least));
  }
  uint32_t codes[32];
  for (int32_t i = 0; i < 32; ++i) {
    codes[i] = kv_code(coding, values[i], scale, least);
  }
  const int32_t per_byte = 8 / coding.bits;
  for (int32_t i = 0; i < 32; i += per_byte) {
    token.put_code((group * 32 + i) / per_byte, per_byte == 1 ? codes[i] : (codes[i] & 15u) | (codes[i + 1] & 15u) << 4);
  }
  for (int32_t i = 0; coding.fifth && i < 32; i += 8) {
    uint32_t bits = 0;
    for (int32_t j = 0; j < 8; ++j) {
      bits |= (codes[i + j] >> 4) << j;
    }
    token.put_fifths(group * 4 + i / 8, bits);
  }
}

inline void turn_by_hadamard(float* head, int32_t head_dim) {
  const int32_t block = head_dim & -head_dim;
  walsh_hadamard(head, head_dim, block, hadamard_factor(block));
}

/// Head h of K or V, which `head` holds and which may change.
inline void append_head(const KvTarget& target, int32_t h, float* head, int32_t head_dim) {
  if (target.rotated) {
    turn_by_hadamard(head, head_dim);
  }
  uint8_t* to = target.head + h * target.head_bytes;
  switch (target.store.element) {
    case KvElement::f32:
      append<float>(head, head_dim, target, to);
      break;
    case KvElement::f16:
      append<HalfBits>(head, head_dim, target, to);
      break;
    case KvElement::bf16:
      append<BfloatBits>(head, head_dim, target, to);
      break;
    case KvElement::coded:
      const CodedToken token{target, kv_arrays(target.store.coding, target.block_tokens, head_dim), to};
      for (int32_t group = 0; group < head_dim / 32; ++group) {
        append_group(token, head + group * 32, group);
      }
      break;
  }
}

inline void rotate(const RopeToken& token, float* head) {
  const int32_t pairs = token.pairs;
  if (token.adjacent) {
    for (int32_t p = 0; p < pairs; ++p) {
      const float first = head[2 * p];
      const float second = head[2 * p + 1];
      head[2 * p] = first * token.cosine[p] - second * token.sine[p];
      head[2 * p + 1] = first * token.sine[p] + second * token.cosine[p];
    }
  } else {
    for (int32_t p = 0; p < pairs; ++p) {
      const float first = head[p];
      const float second = head[p + pairs];
      head[p] = first * token.cosine[p] - second * token.sine[p];
      head[p + pairs] = first * token.sine[p] + second * token.cosine[p];
    }
  }
}

/// A local copy: the compiler then knows that it overlaps nothing.
inline void prepare(const RopeToken& token, const float* from, const float* norm, float* head) {
  if (norm != nullptr && !token.norm_after_turn) {
    rms_norm(from, norm, token.head_dim, token.norm_eps, head);
  } else {
    memcpy(head, from, static_cast<size_t>(token.head_dim) * sizeof(float));
  }
  rotate(token, head);
  if (norm != nullptr && token.norm_after_turn) {
    rms_norm(head, norm, token.head_dim, token.norm_eps, head);
  }
}

/// A head of V before it is stored.
inline void prepare_value(const RopeToken& token, int32_t h, float* head) {
  const float* v = token.v + h * token.head_dim;
  if (token.v_norm != nullptr) {
    rms_norm(v, token.v_norm, token.head_dim, token.norm_eps, head);
  } else {
    memcpy(head, v, static_cast<size_t>(token.head_dim) * sizeof(float));
  }
}

}  // namespace

void rope_angles(const float* inverse_frequency, int32_t pairs, float position, float magnitude, float* cosine,
                 float* sine) {
  for (int32_t p = 0; p < pairs; ++p) {
    const double angle = static_cast<double>(position * inverse_frequency[p]);
    // angle = quarter * pi / 2 + r, |r| <= pi / 4. The first part of pi / 2 has 33 bits: products with 20-bit quarters are
    // exact.
    const double magic = 6755399441055744.0;  // 1.5 * 2^52: adding it rounds to a whole number
    const double shifted = angle * 0.63661977236758134308 + magic;
    const double quarter = shifted - magic;
    const double r = (angle - quarter * 1.57079632673412561417e+00) - quarter * 6.07710050650619224932e-11;
    const double z = r * r;
    // Taylor series; the first terms left out are below 1e-12.
    const double s =
        r + r * z * (-1.0 / 6 + z * (1.0 / 120 + z * (-1.0 / 5040 + z * (1.0 / 362880 + z * (-1.0 / 39916800)))));
    const double c =
        1.0 +
        z * (-0.5 + z * (1.0 / 24 + z * (-1.0 / 720 + z * (1.0 / 40320 + z * (-1.0 / 3628800 + z * (1.0 / 479001600))))));
    uint64_t turns;
    memcpy(&turns, &shifted, sizeof turns);
    const bool odd = (turns & 1u) != 0;
    const double cosine_value = odd ? s : c;
    const double sine_value = odd ? c : s;
    cosine[p] =
        static_cast<float>((((turns + 1) & 2u) != 0 ? -cosine_value : cosine_value) * static_cast<double>(magnitude));
    sine[p] = static_cast<float>(((turns & 2u) != 0 ? -sine_value : sine_value) * static_cast<double>(magnitude));
  }
}

void rope_append(const RopeToken& token) {
  float head[max_rope_head_dim];
  for (int32_t h = 0; h < token.q_heads; ++h) {
    float* q = token.q + h * token.head_dim;
    prepare(token, q, token.q_norm, head);
    if (token.k_to.rotated) {
      turn_by_hadamard(head, token.head_dim);
    }
    for (int32_t i = 0; i < token.head_dim; ++i) {
      q[i] = head[i] * token.q_factor;
    }
  }
  for (int32_t h = 0; h < token.kv_heads; ++h) {
    prepare(token, token.k + h * token.head_dim, token.k_norm, head);
    append_head(token.k_to, h, head, token.head_dim);
    prepare_value(token, h, head);
    append_head(token.v_to, h, head, token.head_dim);
  }
}

}  // namespace rocmforge::ROCMFORGE_ISA
