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
inline void append(const float* head, int32_t head_dim, T* to, int64_t dim_stride) {
  T elements[max_rope_head_dim];
  convert(head, head_dim, elements);
  if (dim_stride == 1) {
    memcpy(to, elements, static_cast<size_t>(head_dim) * sizeof(T));
  } else {
    for (int32_t i = 0; i < head_dim; ++i) {
      to[i * dim_stride] = elements[i];
    }
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

/// A head of V as it is stored, in `head` where it is normalised.
inline const float* value_head(const RopeToken& token, int32_t h, float* head) {
  const float* v = token.v + h * token.head_dim;
  if (token.v_norm == nullptr) {
    return v;
  }
  rms_norm(v, token.v_norm, token.head_dim, token.norm_eps, head);
  return head;
}

template <class T>
inline void append_heads(const RopeToken& token, T* k_out, T* v_out) {
  float head[max_rope_head_dim];
  for (int32_t h = 0; h < token.kv_heads; ++h) {
    prepare(token, token.k + h * token.head_dim, token.k_norm, head);
    append(head, token.head_dim, k_out + h * token.head_elems, token.k_dim_stride);
    append(value_head(token, h, head), token.head_dim, v_out + h * token.head_elems, token.v_dim_stride);
  }
}

/// Each 32 dimensions become quants under one scale; see KvLayout.
inline void append_quants(const float* head, int32_t head_dim, int8_t* to, int64_t dim_stride, HalfBits* scale,
                          int64_t scale_stride) {
  constexpr int32_t group = 32;
  for (int32_t first = 0; first < head_dim; first += group) {
    const float* values = head + first;
    float largest = 0.0f;
    for (int32_t i = 0; i < group; ++i) {
      const float magnitude = __builtin_fabsf(values[i]);
      largest = magnitude > largest ? magnitude : largest;
    }
    float scales[vec_width] = {largest * (1.0f / 127.0f)};
    HalfBits rounded[vec_width] = {};
    convert(scales, 1, rounded);
    store(scales, load(rounded));
    const float unit = scales[0];
    for (int32_t i = 0; i < group; ++i) {
      float quant = 0.0f;
      if (unit > 0.0f) {
        // Adding 1.5 * 2^23 rounds to the nearest whole number, of two to the even one.
        quant = (values[i] / unit + 12582912.0f) - 12582912.0f;
        quant = quant > 127.0f ? 127.0f : quant < -127.0f ? -127.0f : quant;
      }
      to[(first + i) * dim_stride] = static_cast<int8_t>(quant);
    }
    scale[first / group * scale_stride] = rounded[0];
  }
}

inline void append_quantised_heads(const RopeToken& token) {
  float head[max_rope_head_dim];
  for (int32_t h = 0; h < token.kv_heads; ++h) {
    const auto at = [&](void* base) { return static_cast<char*>(base) + h * token.head_elems; };
    prepare(token, token.k + h * token.head_dim, token.k_norm, head);
    append_quants(head, token.head_dim, reinterpret_cast<int8_t*>(at(token.k_out)), token.k_dim_stride,
                  reinterpret_cast<HalfBits*>(at(token.k_scale)), token.k_scale_stride);
    append_quants(value_head(token, h, head), token.head_dim, reinterpret_cast<int8_t*>(at(token.v_out)), token.v_dim_stride,
                  reinterpret_cast<HalfBits*>(at(token.v_scale)), token.v_scale_stride);
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
    for (int32_t i = 0; i < token.head_dim; ++i) {
      q[i] = head[i] * token.q_factor;
    }
  }
  switch (token.element) {
    case KvElement::f32:
      append_heads(token, static_cast<float*>(token.k_out), static_cast<float*>(token.v_out));
      break;
    case KvElement::f16:
      append_heads(token, static_cast<HalfBits*>(token.k_out), static_cast<HalfBits*>(token.v_out));
      break;
    case KvElement::bf16:
      append_heads(token, static_cast<BfloatBits*>(token.k_out), static_cast<BfloatBits*>(token.v_out));
      break;
    case KvElement::q8_0:
      append_quantised_heads(token);
      break;
  }
}

}  // namespace rocmforge::ROCMFORGE_ISA
