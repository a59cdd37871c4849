#pragma once

#include <cstdint>
#include <cstring>

#include "kernels/tile/cpu/floats.h"

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

inline Floats to_floats(const Ints& a) {
  float lanes[16];
  for (int i = 0; i < 16; ++i) {
    lanes[i] = static_cast<float>(a.v[i]);
  }
  return load_floats(lanes);
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
  // 1.5 * 2^23: the rounded integer is left in the low bits
  const Floats shifted = add(a, floats_of(12582912.0f));
  Ints result;
  std::memcpy(result.v, shifted.v, sizeof result.v);
  for (int& lane : result.v) {
    lane -= 0x4b400000;
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

inline Floats load_unsigned_bytes(const std::uint8_t* from) {
  float lanes[16];
  for (int i = 0; i < 16; ++i) {
    lanes[i] = static_cast<float>(from[i]);
  }
  return load_floats(lanes);
}
inline Floats load_signed_bytes(const std::uint8_t* from) {
  float lanes[16];
  for (int i = 0; i < 16; ++i) {
    lanes[i] = static_cast<float>(static_cast<std::int8_t>(from[i]));
  }
  return load_floats(lanes);
}
/// Low or high nibbles of 16 bytes.
template <int shift>
inline Floats load_nibbles(const std::uint8_t* from) {
  float lanes[16];
  for (int i = 0; i < 16; ++i) {
    lanes[i] = static_cast<float>(from[i] >> shift & 15);
  }
  return load_floats(lanes);
}
/// 2^(e - 128) of 16 bytes, denormal for e < 2.
inline Floats load_exponents(const std::uint8_t* from) {
  float lanes[16];
  for (int i = 0; i < 16; ++i) {
    const std::uint32_t e = from[i];
    const std::uint32_t bits = e < 2 ? 0x00200000u << e : (e - 1) << 23;
    std::memcpy(&lanes[i], &bits, sizeof bits);
  }
  return load_floats(lanes);
}

}  // namespace
}  // namespace rocmforge::ROCMFORGE_ISA
