#pragma once

#include <cstdint>

#include "kernels/tile/cpu/matmul_simd.h"

/// Part of the vocabulary of the matrix products (see matmul_simd.h). A chain is a sum of dot products that starts with and
/// ends in the integers of a block; `bits` says how long its codes are. On instruction sets whose dot products add to 32
/// bits it is those integers. AVX2 sums products of short codes in 16 bits for as long as they can't overflow, and
/// multiplies the sums of blocks or their halves with integer scales.
namespace rocmforge::ROCMFORGE_ISA {
namespace {

constexpr bool narrow_chains = false;
constexpr bool wide_activations = false;
constexpr bool integer_scales = false;

template <int bits>
constexpr int chain_steps = 8;

using Chain = Ints;

template <int bits>
inline Chain start_chain(const Ints& total, const Bytes& codes, const Quad& x) {
  return dot<false>(total, codes, x);
}
template <int bits>
inline Chain continue_chain(const Chain& chain, const Bytes& codes, const Quad& x) {
  return dot<false>(chain, codes, x);
}
template <int bits>
inline Ints end_chain(const Ints&, const Chain& chain) {
  return chain;
}

// Defined where integer_scales or wide_activations hold.
template <int bits>
Ints end_scaled_chain(const Ints& total, const Chain& chain, const Ints& multiplier);
template <int shift>
Ints scaled_offset(const Ints (&multiplier)[2], const std::int16_t* half_pair);
template <MultiplierForm form>
Ints load_multipliers(const std::uint8_t* from);
template <class Integers>
void store_ints(Integers& to, const Integers& a);
template <int bits>
void store_pairs(std::uint8_t* to, const Bytes& codes);
template <class Word>
void store_words(Word* to, const Ints& a);

}  // namespace
}  // namespace rocmforge::ROCMFORGE_ISA
