#pragma once

#include <cstdint>
#include <cstring>

namespace rocmforge::ROCMFORGE_ISA {
namespace {

// Rows (in groups of 16) and tokens that one register tile covers.
constexpr int tile_groups = 1;
constexpr int tile_tokens = 2;
constexpr int plain_tile_groups = 1;
constexpr int plain_tile_tokens = 2;
/// Sums of a tile stay in registers while a panel passes; otherwise they are fetched for each block.
constexpr bool sums_stay_in_registers = true;
/// There are products of BF16 pairs: multiply_bfloat_pairs and store_bfloats.
constexpr bool multiplies_bfloats = false;
/// Codes up to 255 may enter dot() as unsigned bytes. Where not, formats that have such codes are made signed first.
constexpr bool wide_codes_unsigned = true;

struct Bytes {
  std::uint8_t v[64];
};
struct Ints {
  std::int32_t v[16];
};
struct Floats {
  float v[16];
};
/// Four activations, to be multiplied by every row.
struct Quad {
  std::int8_t v[4];
};

inline Bytes load_bytes(const std::uint8_t* from) {
  Bytes result;
  std::memcpy(result.v, from, 64);
  return result;
}
inline void store_bytes(std::uint8_t* to, const Bytes& a) { std::memcpy(to, a.v, 64); }

/// (a >> shift) & mask in each byte.
template <int shift, int mask>
inline Bytes extract(const Bytes& a) {
  Bytes result;
  for (int i = 0; i < 64; ++i) {
    result.v[i] = static_cast<std::uint8_t>(a.v[i] >> shift & mask);
  }
  return result;
}

/// a | ((high >> from) & mask) << to, where `mask` is given at its place in the result.
template <int from, int to, int mask>
inline Bytes insert(const Bytes& a, const Bytes& high) {
  Bytes result;
  for (int i = 0; i < 64; ++i) {
    result.v[i] = static_cast<std::uint8_t>(a.v[i] | ((high.v[i] >> from << to) & mask));
  }
  return result;
}

/// table[a] for bytes below 16.
inline Bytes look_up(const std::uint8_t (&table)[16], const Bytes& a) {
  Bytes result;
  for (int i = 0; i < 64; ++i) {
    result.v[i] = table[a.v[i]];
  }
  return result;
}

inline Bytes flip_top_bits(Bytes a) {
  for (std::uint8_t& byte : a.v) {
    byte ^= 0x80;
  }
  return a;
}
template <int value>
inline Bytes add_to_bytes(Bytes a) {
  for (std::uint8_t& byte : a.v) {
    byte = static_cast<std::uint8_t>(byte + value);
  }
  return a;
}

inline Quad load_quad(const std::int8_t* from) {
  Quad result;
  std::memcpy(result.v, from, 4);
  return result;
}

/// sum[row] += sum over j of codes[4 * row + j] * x[j], with codes unsigned or signed.
template <bool signed_codes>
inline Ints dot(Ints sum, const Bytes& codes, const Quad& x) {
  static_assert(!signed_codes);
  for (int r = 0; r < 16; ++r) {
    for (int j = 0; j < 4; ++j) {
      sum.v[r] += codes.v[4 * r + j] * x.v[j];
    }
  }
  return sum;
}

inline Ints add(Ints a, const Ints& b) {
  for (int i = 0; i < 16; ++i) {
    a.v[i] += b.v[i];
  }
  return a;
}
inline Floats add(Floats a, const Floats& b) {
  for (int i = 0; i < 16; ++i) {
    a.v[i] += b.v[i];
  }
  return a;
}
/// Every lane value * 2^shift.
template <int shift>
inline Ints broadcast_shifted(const std::int32_t* value) {
  Ints result;
  for (int& lane : result.v) {
    lane = *value * (1 << shift);
  }
  return result;
}
inline Ints zero_ints() { return Ints{}; }

inline Floats zero_floats() { return Floats{}; }
inline Floats broadcast(float value) {
  Floats result;
  for (float& lane : result.v) {
    lane = value;
  }
  return result;
}
inline Floats load_floats(const void* from) {
  Floats result;
  std::memcpy(result.v, from, sizeof result.v);
  return result;
}
inline void store_floats(float* to, const Floats& a) { std::memcpy(to, a.v, sizeof a); }
inline Floats to_floats(const Ints& a) {
  Floats result;
  for (int i = 0; i < 16; ++i) {
    result.v[i] = static_cast<float>(a.v[i]);
  }
  return result;
}
inline Floats multiply(Floats a, const Floats& b) {
  for (int i = 0; i < 16; ++i) {
    a.v[i] *= b.v[i];
  }
  return a;
}
/// a * b + c
inline Floats multiply_add(Floats a, const Floats& b, const Floats& c) {
  for (int i = 0; i < 16; ++i) {
    a.v[i] = a.v[i] * b.v[i] + c.v[i];
  }
  return a;
}
inline Floats negate(Floats a) {
  for (float& lane : a.v) {
    lane = -lane;
  }
  return a;
}
/// The largest |lane| of both; a NaN is larger than infinity.
inline float largest_magnitude(const Floats& a, const Floats& b) {
  std::int32_t bits[32];
  std::memcpy(bits, a.v, sizeof a.v);
  std::memcpy(bits + 16, b.v, sizeof b.v);
  std::int32_t largest = 0;  // non-negative floats are ordered as their bits are
  for (const std::int32_t lane : bits) {
    const std::int32_t magnitude = lane & 0x7fffffff;
    largest = magnitude > largest ? magnitude : largest;
  }
  float result;
  std::memcpy(&result, &largest, sizeof result);
  return result;
}
/// To nearest, ties to even, for lanes below 2^22.
inline Ints round_to_ints(const Floats& a) {
  Ints result;
  for (int i = 0; i < 16; ++i) {
    const float shifted = a.v[i] + 12582912.0f;  // 1.5 * 2^23: the rounded integer is left in the low bits
    std::memcpy(&result.v[i], &shifted, sizeof shifted);
    result.v[i] -= 0x4b400000;
  }
  return result;
}
inline std::int32_t sum_of(const Ints& a) {
  std::int32_t sum = 0;
  for (const std::int32_t lane : a.v) {
    sum += lane;
  }
  return sum;
}
inline void store_narrowed(std::int8_t* to, const Ints& a) {
  for (int i = 0; i < 16; ++i) {
    to[i] = static_cast<std::int8_t>(a.v[i]);
  }
}

inline float bits_to_float(std::uint32_t bits) {
  float result;
  std::memcpy(&result, &bits, sizeof result);
  return result;
}
/// Without branches, so that a loop of it becomes vectors.
inline float half_bits_to_float(std::uint32_t bits) {
  const std::uint32_t sign = (bits & 0x8000u) << 16;
  const std::uint32_t magnitude = bits & 0x7fffu;
  // 2^112 moves the exponent from the bias of 15 to that of 127, denormals included.
  const float value = bits_to_float(magnitude << 13) * 0x1p112f;
  std::uint32_t finite;
  std::memcpy(&finite, &value, sizeof finite);
  const std::uint32_t not_finite = 0x7f800000u | (magnitude & 0x3ffu) << 13;
  return bits_to_float(sign | (magnitude >= 0x7c00u ? not_finite : finite));
}
/// From 16 f16 or bytes, at any alignment.
inline Floats load_halves(const void* from) {
  std::uint16_t bits[16];
  std::memcpy(bits, from, sizeof bits);
  Floats result;
  for (int i = 0; i < 16; ++i) {
    result.v[i] = half_bits_to_float(bits[i]);
  }
  return result;
}
struct ColumnPair {
  Floats first;
  Floats second;
};
/// From 16 pairs of bf16.
inline ColumnPair load_bfloat_pairs(const void* from) {
  std::uint32_t bits[16];
  std::memcpy(bits, from, sizeof bits);
  ColumnPair result;
  for (int i = 0; i < 16; ++i) {
    result.first.v[i] = bits_to_float(bits[i] << 16);
    result.second.v[i] = bits_to_float(bits[i] & 0xffff0000u);
  }
  return result;
}
template <class Bits>
void store_bfloats(Bits* to, const Floats& a);
template <class Bits>
Floats multiply_bfloat_pairs(const Floats& sum, const std::uint8_t* pairs, const Bits* x);
inline Floats load_unsigned_bytes(const std::uint8_t* from) {
  Floats result;
  for (int i = 0; i < 16; ++i) {
    result.v[i] = static_cast<float>(from[i]);
  }
  return result;
}
inline Floats load_signed_bytes(const std::uint8_t* from) {
  Floats result;
  for (int i = 0; i < 16; ++i) {
    result.v[i] = static_cast<float>(static_cast<std::int8_t>(from[i]));
  }
  return result;
}
/// Low or high nibbles of 16 bytes.
template <int shift>
inline Floats load_nibbles(const std::uint8_t* from) {
  Floats result;
  for (int i = 0; i < 16; ++i) {
    result.v[i] = static_cast<float>(from[i] >> shift & 15);
  }
  return result;
}
/// 2^(e - 128) of 16 bytes, denormal for e < 2.
inline Floats load_exponents(const std::uint8_t* from) {
  Floats result;
  for (int i = 0; i < 16; ++i) {
    const std::uint32_t e = from[i];
    result.v[i] = bits_to_float(e < 2 ? 0x00200000u << e : (e - 1) << 23);
  }
  return result;
}

inline void prefetch(const void* address) { __builtin_prefetch(address, 0, 3); }

}  // namespace
}  // namespace rocmforge::ROCMFORGE_ISA
