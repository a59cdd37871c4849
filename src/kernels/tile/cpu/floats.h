#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "kernels/tile/cpu/simd.h"

/// Part of the vocabulary of the matrix products (see matmul_simd.h): Floats, a number for each of the 16 rows of a group,
/// of as many vectors as the instruction set needs.
namespace rocmforge::ROCMFORGE_ISA {
namespace {

constexpr int vecs_of_floats = 16 / vec_width;

struct Floats {
  Vec v[vecs_of_floats];
};

/// make(i) is vector i. Not a loop: compilers keep what a loop fills in memory until they have unrolled it, which costs
/// AVX2's tiles registers.
template <class Make, std::size_t... i>
[[gnu::always_inline]] inline Floats floats_by_vec(const Make& make, std::index_sequence<i...>) {
  return {{make(i)...}};
}
template <class Make>
[[gnu::always_inline]] inline Floats floats_by_vec(const Make& make) {
  return floats_by_vec(make, std::make_index_sequence<vecs_of_floats>());
}

inline Floats floats_of(float value) {
  return floats_by_vec([&](std::size_t) { return broadcast(value); });
}
inline Floats zero_floats() { return floats_of(0.0f); }
inline Floats load_floats(const void* from) {
  return floats_by_vec([&](std::size_t i) { return load(static_cast<const float*>(from) + i * vec_width); });
}
template <std::size_t... i>
[[gnu::always_inline]] inline void store_vecs(float* to, const Floats& a, std::index_sequence<i...>) {
  (store(to + i * vec_width, a.v[i]), ...);
}
inline void store_floats(float* to, const Floats& a) { store_vecs(to, a, std::make_index_sequence<vecs_of_floats>()); }
/// From 16 f16 or bytes, at any alignment.
inline Floats load_halves(const void* from) {
  return floats_by_vec([&](std::size_t i) { return load(static_cast<const HalfBits*>(from) + i * vec_width); });
}
struct ColumnPair {
  Floats first;
  Floats second;
};
/// From 16 pairs of bf16.
inline ColumnPair load_bfloat_pairs(const void* from) {
  ColumnPair result;
  for (int i = 0; i < vecs_of_floats; ++i) {
    const VecPair pair = load_pairs(static_cast<const BfloatBits*>(from) + 2 * i * vec_width);
    result.first.v[i] = pair.first;
    result.second.v[i] = pair.second;
  }
  return result;
}

inline Floats add(Floats a, Floats b) {
  return floats_by_vec([&](std::size_t i) { return a.v[i] + b.v[i]; });
}
inline Floats multiply(Floats a, Floats b) {
  return floats_by_vec([&](std::size_t i) { return a.v[i] * b.v[i]; });
}
/// a * b + c
inline Floats multiply_add(Floats a, Floats b, Floats c) {
  return floats_by_vec([&](std::size_t i) { return fma(a.v[i], b.v[i], c.v[i]); });
}
inline Floats negate(Floats a) {
  return floats_by_vec([&](std::size_t i) { return -a.v[i]; });
}

}  // namespace
}  // namespace rocmforge::ROCMFORGE_ISA
