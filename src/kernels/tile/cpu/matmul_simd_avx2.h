#pragma once

#include <immintrin.h>

#include <cstdint>
#include <cstring>

/// AVX2 with FMA and F16C, and the same with AVX-VNNI's dot products: two registers each. See matmul_simd_generic.h for what
/// the functions mean.
namespace rocmforge::ROCMFORGE_ISA {
namespace {

constexpr int tile_groups = 1;
constexpr int tile_tokens = 6;
constexpr int plain_tile_groups = 1;
constexpr int plain_tile_tokens = 6;
constexpr bool sums_stay_in_registers = false;
constexpr bool multiplies_bfloats = false;
/// maddubs adds two products in 16 bits with saturation: unsigned bytes must stay below 128 (2 * 127 * 127 < 2^15).
#if defined(ROCMFORGE_ISA_avxvnni)
constexpr bool wide_codes_unsigned = true;
#else
constexpr bool wide_codes_unsigned = false;
#endif

struct Bytes {
  __m256i v[2];
};
struct Ints {
  __m256i v[2];
};
struct Floats {
  __m256 v[2];
};
struct Quad {
  __m256i v;
};

inline __m256i load_32(const void* from) { return _mm256_loadu_si256(static_cast<const __m256i*>(from)); }
inline __m128i load_16(const void* from) { return _mm_loadu_si128(static_cast<const __m128i*>(from)); }
inline __m128i load_8(const void* from) { return _mm_loadl_epi64(static_cast<const __m128i*>(from)); }

inline Bytes load_bytes(const std::uint8_t* from) { return {{load_32(from), load_32(from + 32)}}; }
inline void store_bytes(std::uint8_t* to, Bytes a) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), a.v[0]);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + 32), a.v[1]);
}

template <int shift, int mask>
inline Bytes extract(Bytes a) {
  for (__m256i& part : a.v) {
    part = _mm256_and_si256(_mm256_srli_epi16(part, shift), _mm256_set1_epi8(static_cast<char>(mask)));
  }
  return a;
}
template <int from, int to, int mask>
inline Bytes insert(Bytes a, Bytes high) {
  for (int i = 0; i < 2; ++i) {
    const __m256i moved =
        from < to ? _mm256_slli_epi16(high.v[i], to - from) : _mm256_srli_epi16(high.v[i], from > to ? from - to : 0);
    a.v[i] = _mm256_or_si256(a.v[i], _mm256_and_si256(moved, _mm256_set1_epi8(static_cast<char>(mask))));
  }
  return a;
}
inline Bytes look_up(const std::uint8_t (&table)[16], Bytes a) {
  const __m256i entries = _mm256_broadcastsi128_si256(load_16(table));
  return {{_mm256_shuffle_epi8(entries, a.v[0]), _mm256_shuffle_epi8(entries, a.v[1])}};
}
inline Bytes flip_top_bits(Bytes a) {
  const __m256i top = _mm256_set1_epi8(static_cast<char>(0x80));
  return {{_mm256_xor_si256(a.v[0], top), _mm256_xor_si256(a.v[1], top)}};
}
template <int value>
inline Bytes add_to_bytes(Bytes a) {
  const __m256i values = _mm256_set1_epi8(static_cast<char>(value));
  return {{_mm256_add_epi8(a.v[0], values), _mm256_add_epi8(a.v[1], values)}};
}

inline Quad load_quad(const std::int8_t* from) {
  std::int32_t four;
  std::memcpy(&four, from, sizeof four);
  return {_mm256_set1_epi32(four)};
}
#if defined(ROCMFORGE_ISA_avxvnni)
template <bool signed_codes>
inline Ints dot(Ints sum, Bytes codes, Quad x) {
  static_assert(!signed_codes);
  return {{_mm256_dpbusd_avx_epi32(sum.v[0], codes.v[0], x.v), _mm256_dpbusd_avx_epi32(sum.v[1], codes.v[1], x.v)}};
}
#else
inline __m256i add_quads(__m256i sum, __m256i unsigned_bytes, __m256i signed_bytes) {
  const __m256i pairs = _mm256_maddubs_epi16(unsigned_bytes, signed_bytes);
  return _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}
template <bool signed_codes>
inline Ints dot(Ints sum, Bytes codes, Quad x) {
  for (int i = 0; i < 2; ++i) {
    if constexpr (signed_codes) {
      // |code| times x with the sign of the code; |-128| is 128 as an unsigned byte, which still fits.
      sum.v[i] = add_quads(sum.v[i], _mm256_abs_epi8(codes.v[i]), _mm256_sign_epi8(x.v, codes.v[i]));
    } else {
      sum.v[i] = add_quads(sum.v[i], codes.v[i], x.v);
    }
  }
  return sum;
}

// Chains, see matmul_chains.h: products of codes below 2^bits add up in 16 bits for chain_steps steps (2 * 15 * 127 * 8 <
// 2^15, 2 * 31 * 127 * 4, 2 * 63 * 127 * 2, 2 * 127 * 127 * 1). Longer codes are signed and take 16 bits, so that a step
// covers two columns in place of four, and are summed in 32.
constexpr bool narrow_chains = true;
constexpr bool wide_activations = true;
constexpr bool integer_scales = true;
template <int bits>
constexpr int chain_steps = bits == 4   ? 8
                            : bits == 5 ? 4
                            : bits == 6 ? 2
                            : bits == 7 ? 1
                                        : 16;

struct Chain {
  __m256i v[2];
};

template <int bits>
inline Chain start_chain([[maybe_unused]] Ints total, Bytes codes, Quad x) {
  if constexpr (bits == 8) {
    return {{_mm256_add_epi32(total.v[0], _mm256_madd_epi16(codes.v[0], x.v)),
             _mm256_add_epi32(total.v[1], _mm256_madd_epi16(codes.v[1], x.v))}};
  } else {
    return {{_mm256_maddubs_epi16(codes.v[0], x.v), _mm256_maddubs_epi16(codes.v[1], x.v)}};
  }
}
template <int bits>
inline __m256i add_products(__m256i sum, __m256i codes, __m256i x) {
  if constexpr (bits == 8) {
    sum = _mm256_add_epi32(sum, _mm256_madd_epi16(codes, x));
  } else {
    sum = _mm256_add_epi16(sum, _mm256_maddubs_epi16(codes, x));
  }
  // Compilers know that the additions may be done in any order, and would do them last: a register for every product.
  asm("" : "+x"(sum));
  return sum;
}
template <int bits>
inline Chain continue_chain(Chain chain, Bytes codes, Quad x) {
  return {{add_products<bits>(chain.v[0], codes.v[0], x.v), add_products<bits>(chain.v[1], codes.v[1], x.v)}};
}
/// A multiplier holds the integer scale of a row twice in its 32 bits, for both 16-bit sums.
template <int bits>
inline Ints end_scaled_chain(Ints total, Chain chain, Ints multiplier) {
  return {{_mm256_add_epi32(total.v[0], _mm256_madd_epi16(chain.v[0], multiplier.v[0])),
           _mm256_add_epi32(total.v[1], _mm256_madd_epi16(chain.v[1], multiplier.v[1]))}};
}
template <int bits>
inline Ints end_chain(Ints total, Chain chain) {
  if constexpr (bits == 8) {
    return {{chain.v[0], chain.v[1]}};
  } else {
    const __m256i ones = _mm256_set1_epi16(1);
    return end_scaled_chain<bits>(total, chain, {{ones, ones}});
  }
}
/// The sum over both halves of scale * 2^shift * half_pair[half].
template <int shift>
inline Ints scaled_offset(const Ints (&multiplier)[2], const std::int16_t* half_pair) {
  std::int32_t two;
  std::memcpy(&two, half_pair, sizeof two);
  Ints result;
  for (int i = 0; i < 2; ++i) {
    const __m256i scales = _mm256_blend_epi16(multiplier[0].v[i], multiplier[1].v[i], 0xaa);
    result.v[i] = _mm256_madd_epi16(_mm256_slli_epi16(scales, shift), _mm256_set1_epi32(two));
  }
  return result;
}
template <MultiplierForm form>
inline Ints load_multipliers(const std::uint8_t* from) {
  Ints result;
  for (int i = 0; i < 2; ++i) {
    __m256i scales = form == MultiplierForm::unsigned_byte ? _mm256_cvtepu8_epi32(load_8(from + 8 * i))
                                                           : _mm256_cvtepi8_epi32(load_8(from + 8 * i));
    if constexpr (form == MultiplierForm::low_nibble) {
      scales = _mm256_and_si256(scales, _mm256_set1_epi32(15));
    }
    result.v[i] = _mm256_blend_epi16(scales, _mm256_slli_epi32(scales, 16), 0xaa);
  }
  return result;
}
/// An assignment may go through general registers, in pieces that a load can't be forwarded from.
template <class Integers>
inline void store_ints(Integers& to, const Integers& a) {
  _mm256_store_si256(&to.v[0], a.v[0]);
  _mm256_store_si256(&to.v[1], a.v[1]);
}
/// Signed codes of four columns of 16 rows become two vectors of two columns each, in 16 bits.
template <int bits>
inline void store_pairs(std::uint8_t* to, Bytes codes) {
  for (int step = 0; step < 2; ++step) {
    const auto at = [&](int row) { return static_cast<char>(4 * row + 2 * step); };
    const __m256i places = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(-1, at(0), -1, static_cast<char>(at(0) + 1), -1, at(1), -1, static_cast<char>(at(1) + 1), -1, at(2),
                      -1, static_cast<char>(at(2) + 1), -1, at(3), -1, static_cast<char>(at(3) + 1)));
    for (int i = 0; i < 2; ++i) {
      const __m256i high_bytes = _mm256_shuffle_epi8(codes.v[i], places);
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + step * 64 + i * 32), _mm256_srai_epi16(high_bytes, 8));
    }
  }
}
template <class Word>
inline void store_words(Word* to, Ints a) {
  const __m256i words = _mm256_permute4x64_epi64(_mm256_packs_epi32(a.v[0], a.v[1]), 0xd8);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), words);
}
#endif

inline Ints add(Ints a, Ints b) { return {{_mm256_add_epi32(a.v[0], b.v[0]), _mm256_add_epi32(a.v[1], b.v[1])}}; }
inline Floats add(Floats a, Floats b) { return {{_mm256_add_ps(a.v[0], b.v[0]), _mm256_add_ps(a.v[1], b.v[1])}}; }
template <int shift>
inline Ints broadcast_shifted(const std::int32_t* value) {
  const __m256i shifted = _mm256_slli_epi32(_mm256_set1_epi32(*value), shift);
  return {{shifted, shifted}};
}
inline Ints zero_ints() { return {{_mm256_setzero_si256(), _mm256_setzero_si256()}}; }

inline Floats zero_floats() { return {{_mm256_setzero_ps(), _mm256_setzero_ps()}}; }
inline Floats broadcast(float value) { return {{_mm256_set1_ps(value), _mm256_set1_ps(value)}}; }
inline Floats load_floats(const void* from) {
  return {{_mm256_castsi256_ps(load_32(from)), _mm256_castsi256_ps(load_32(static_cast<const char*>(from) + 32))}};
}
inline void store_floats(float* to, Floats a) {
  _mm256_storeu_ps(to, a.v[0]);
  _mm256_storeu_ps(to + 8, a.v[1]);
}
inline Floats to_floats(Ints a) { return {{_mm256_cvtepi32_ps(a.v[0]), _mm256_cvtepi32_ps(a.v[1])}}; }
inline Floats multiply(Floats a, Floats b) { return {{_mm256_mul_ps(a.v[0], b.v[0]), _mm256_mul_ps(a.v[1], b.v[1])}}; }
inline Floats multiply_add(Floats a, Floats b, Floats c) {
  return {{_mm256_fmadd_ps(a.v[0], b.v[0], c.v[0]), _mm256_fmadd_ps(a.v[1], b.v[1], c.v[1])}};
}
inline Floats negate(Floats a) {
  const __m256 sign = _mm256_set1_ps(-0.0f);
  return {{_mm256_xor_ps(a.v[0], sign), _mm256_xor_ps(a.v[1], sign)}};
}
inline float largest_magnitude(Floats a, Floats b) {
  const __m256i magnitude = _mm256_set1_epi32(0x7fffffff);
  __m256i eight = _mm256_setzero_si256();
  for (int i = 0; i < 2; ++i) {
    eight = _mm256_max_epi32(eight, _mm256_and_si256(_mm256_castps_si256(a.v[i]), magnitude));
    eight = _mm256_max_epi32(eight, _mm256_and_si256(_mm256_castps_si256(b.v[i]), magnitude));
  }
  __m128i four = _mm_max_epi32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256(eight, 1));
  four = _mm_max_epi32(four, _mm_shuffle_epi32(four, 0x4e));
  return _mm_cvtss_f32(_mm_castsi128_ps(_mm_max_epi32(four, _mm_shuffle_epi32(four, 0xb1))));
}
inline Ints round_to_ints(Floats a) { return {{_mm256_cvtps_epi32(a.v[0]), _mm256_cvtps_epi32(a.v[1])}}; }
inline std::int32_t sum_of(Ints a) {
  const __m256i eight = _mm256_add_epi32(a.v[0], a.v[1]);
  __m128i four = _mm_add_epi32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256(eight, 1));
  four = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0x4e));
  return _mm_cvtsi128_si32(_mm_add_epi32(four, _mm_shuffle_epi32(four, 0xb1)));
}
inline void store_narrowed(std::int8_t* to, Ints a) {
  // The packs work inside 128-bit lanes: bring the four pieces back in order.
  const __m256i words = _mm256_permute4x64_epi64(_mm256_packs_epi32(a.v[0], a.v[1]), 0xd8);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to),
                   _mm_packs_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1)));
}

inline Floats load_halves(const void* from) {
  return {{_mm256_cvtph_ps(load_16(from)), _mm256_cvtph_ps(load_16(static_cast<const char*>(from) + 16))}};
}
struct ColumnPair {
  Floats first;
  Floats second;
};
inline ColumnPair load_bfloat_pairs(const void* from) {
  ColumnPair result;
  for (int i = 0; i < 2; ++i) {
    const __m256i bits = load_32(static_cast<const char*>(from) + 32 * i);
    result.first.v[i] = _mm256_castsi256_ps(_mm256_slli_epi32(bits, 16));
    result.second.v[i] = _mm256_castsi256_ps(_mm256_and_si256(bits, _mm256_set1_epi32(static_cast<int>(0xffff0000u))));
  }
  return result;
}
template <class Bits>
void store_bfloats(Bits* to, Floats a);
template <class Bits>
Floats multiply_bfloat_pairs(Floats sum, const std::uint8_t* pairs, const Bits* x);
inline Floats load_unsigned_bytes(const std::uint8_t* from) {
  return to_floats({{_mm256_cvtepu8_epi32(load_8(from)), _mm256_cvtepu8_epi32(load_8(from + 8))}});
}
inline Floats load_signed_bytes(const std::uint8_t* from) {
  return to_floats({{_mm256_cvtepi8_epi32(load_8(from)), _mm256_cvtepi8_epi32(load_8(from + 8))}});
}
template <int shift>
inline Floats load_nibbles(const std::uint8_t* from) {
  const __m256i mask = _mm256_set1_epi32(15);
  return to_floats({{_mm256_and_si256(_mm256_srli_epi32(_mm256_cvtepu8_epi32(load_8(from)), shift), mask),
                     _mm256_and_si256(_mm256_srli_epi32(_mm256_cvtepu8_epi32(load_8(from + 8)), shift), mask)}});
}
inline __m256 exponents_to_floats(__m256i e) {
  const __m256i normal = _mm256_slli_epi32(_mm256_sub_epi32(e, _mm256_set1_epi32(1)), 23);
  const __m256i denormal = _mm256_sllv_epi32(_mm256_set1_epi32(0x00200000), e);
  const __m256i small = _mm256_cmpgt_epi32(_mm256_set1_epi32(2), e);
  return _mm256_castsi256_ps(_mm256_blendv_epi8(normal, denormal, small));
}
inline Floats load_exponents(const std::uint8_t* from) {
  return {{exponents_to_floats(_mm256_cvtepu8_epi32(load_8(from))),
           exponents_to_floats(_mm256_cvtepu8_epi32(load_8(from + 8)))}};
}

inline void prefetch(const void* address) { _mm_prefetch(static_cast<const char*>(address), _MM_HINT_T0); }

}  // namespace
}  // namespace rocmforge::ROCMFORGE_ISA
