#pragma once

// Pieces of drawing a token: an order of logits, exact sums of probabilities, and cuts of a list of tokens at a number or a
// mass without sorting it. Probabilities are integers in units of 2^-45 of the most likely token's: their sums are the same
// in any order, and a sum over a whole vocabulary is within 1e-8 of the real one, typically 1e-11.

#include "kernels/sample/portable/sample_args.h"
#include "kernels/tile/device_code.h"

namespace rocmforge::gpu {

using Mass = unsigned long long;

inline constexpr int sample_digits = 256;
inline constexpr int sample_copies = 16;  ///< of the histogram: neighbouring lanes add to different ones

inline constexpr int sample_roots = 64;

/// Shared memory of one row's work-group.
struct SampleShared {
  Mass histogram[sample_digits * sample_copies];
  Mass sums[sample_digits];              ///< of the copies, the highest digit first
  Mass parts[sample_draw_threads / 32];  ///< one for each wave
  double roots[sample_roots];            ///< 2^(i / sample_roots)
  Mass total;
  Mass need;
  Mass digit_mass;
  int digit;
};

/// Larger logits have larger keys. 0 is forbidden: NaN and -inf. +inf is the largest finite number, -0 is 0.
__device__ inline std::uint32_t logit_key(float logit) {
  std::uint32_t bits = __builtin_bit_cast(std::uint32_t, logit);
  if ((bits & 0x7fffffffu) > 0x7f800000u || bits == 0xff800000u) {
    return 0;
  }
  bits = bits == 0x7f800000u ? 0x7f7fffffu : bits == 0x80000000u ? 0 : bits;
  return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}

__device__ inline double logit_of(std::uint32_t key) {
  return __builtin_bit_cast(float, (key & 0x80000000u) != 0 ? key & 0x7fffffffu : ~key);
}

/// A chunk's best token: of equal logits the lower id is the larger number. 0 when all are forbidden.
__device__ inline std::uint64_t best_of(std::uint32_t key, int id) {
  return key == 0 ? 0 : std::uint64_t{key} << 32 | ~static_cast<std::uint32_t>(id);
}
__device__ inline std::uint32_t key_of_best(std::uint64_t best) { return static_cast<std::uint32_t>(best >> 32); }
__device__ inline int id_of_best(std::uint64_t best) {
  return best == 0 ? -1 : static_cast<int>(~static_cast<std::uint32_t>(best));
}

/// exp(x) for x in [-500, 0] within 2e-15 of it, relative: 2^(k / 64) by table and exponent, times exp of the rest, below
/// 0.0055, by its series.
__device__ inline double exponential(double x, const SampleShared& shared) {
  constexpr double steps_of_one = 92.33248261893580;        // 64 / ln 2
  constexpr double step = 0.010830424696249145;             // ln 2 / 64
  constexpr double rounds_to_integer = 6755399441055744.0;  // 1.5 * 2^52
  const double shifted = fma(x, steps_of_one, rounds_to_integer);
  const double steps = shifted - rounds_to_integer;
  const int k = static_cast<int>(steps);
  const double rest = fma(steps, -step, x);
  const double series = rest + rest * rest * (0.5 + rest * (1.0 / 6 + rest * (1.0 / 24 + rest * (1.0 / 120))));
  const double power = __builtin_bit_cast(double, static_cast<std::int64_t>(1023 + (k >> 6)) << 52);
  const double root = shared.roots[k & (sample_roots - 1)];
  return (root + root * series) * power;
}

/// Fills the table that exponential() reads; the caller synchronises afterwards.
__device__ inline void fill_roots(SampleShared& shared) {
  for (int i = thread_index(); i < sample_roots; i += sample_draw_threads) {
    shared.roots[i] = exp2(static_cast<double>(i) / sample_roots);
  }
}

/// The probability of a token `distance` <= 0 below the most likely one, in units of 2^-45 of that one's.
__device__ inline Mass mass_at(double distance, const SampleShared& shared) {
  return distance < -32.0 ? 0 : static_cast<Mass>(exponential(distance, shared) * 0x1p45 + 0.5);
}

/// A bit for each lane whose `condition` holds.
__device__ inline std::uint64_t wave_ballot(bool condition) {
#if ROCMFORGE_DEVICE_AMD
  return __ballot(condition);
#else
  return __ballot_sync(0xffffffffu, condition);
#endif
}

/// The sum over lanes up to and including the own one.
template <class T>
__device__ inline T wave_inclusive_sum(T value) {
#pragma unroll
  for (int step = 1; step < wave_size; step *= 2) {
    const int lane = lane_index();
    const T below = shuffle(value, lane >= step ? lane - step : lane);
    value += lane >= step ? below : T{0};
  }
  return value;
}

/// Where a list ordered by descending keys is cut so that what is kept just reaches a target.
struct Cut {
  std::uint64_t key;  ///< of the last kept element
  Mass need;          ///< what elements with this key add to reach the target
  Mass mass_there;    ///< of all elements with this key
  Mass total;         ///< of the list
};

/// Elements i of [0, count): `key(i, &out)` says whether i takes part and gives its key of `key_bits` bits, `mass(i)` is its
/// mass; `target(total)` is in [1, total]. One pass over the list for each byte of the key; mass() is called only for
/// elements that share the bytes found so far.
template <class KeyOf, class MassOf, class Target>
__device__ inline Cut cut_list(int count, int key_bits, SampleShared& shared, KeyOf key, MassOf mass, Target target) {
  const int top_shift = key_bits - 8;
  constexpr int lane_digits = sample_digits / wave_size;
  Cut cut{};
#pragma unroll 1
  for (int shift = top_shift; shift >= 0; shift -= 8) {
    __syncthreads();
#pragma unroll 2
    for (int i = thread_index(); i < sample_digits * sample_copies; i += sample_draw_threads) {
      shared.histogram[i] = 0;
    }
    __syncthreads();
#pragma unroll 1
    for (int i = thread_index(); i < count; i += sample_draw_threads) {
      std::uint64_t own;
      if (key(i, &own) && ((own ^ cut.key) >> shift) >> 8 == 0) {
        const int digit = static_cast<int>((own >> shift) & 255);
        if (const Mass added = mass(i); added != 0) {
          atomicAdd(&shared.histogram[digit * sample_copies + (lane_index() & (sample_copies - 1))], added);
        }
      }
    }
    __syncthreads();
    if (thread_index() < sample_digits) {  // begins at different copies, for different banks
      Mass sum = 0;
#pragma unroll 4
      for (int copy = 0; copy < sample_copies; ++copy) {
        sum += shared.histogram[thread_index() * sample_copies + ((copy + thread_index()) & (sample_copies - 1))];
      }
      shared.sums[sample_digits - 1 - thread_index()] = sum;
    }
    __syncthreads();
    if (wave_index() == 0) {  // each lane has neighbouring digits, the highest in lane 0
      const int first = lane_index() * lane_digits;
      Mass own = 0;
#pragma unroll 2
      for (int d = first; d < first + lane_digits; ++d) {
        own += shared.sums[d];
      }
      const Mass reached = wave_inclusive_sum(own);
      const Mass total = shuffle(reached, wave_size - 1);
      const Mass need = shift == top_shift ? target(total) : cut.need;
      Mass above = reached - own;
      if (above < need && need <= reached) {
        int d = first;
#pragma unroll 1
        while (above + shared.sums[d] < need) {
          above += shared.sums[d++];
        }
        shared.digit = sample_digits - 1 - d;
        shared.need = need - above;
        shared.digit_mass = shared.sums[d];
      }
      if (lane_index() == 0) {
        shared.total = total;
      }
    }
    __syncthreads();
    cut.key |= static_cast<std::uint64_t>(shared.digit) << shift;
    cut.need = shared.need;
    cut.mass_there = shared.digit_mass;
    cut.total = shift == top_shift ? shared.total : cut.total;
  }
  return cut;
}

/// The first i of [0, count) at which the running sum of mass(i) exceeds target(total) < total; -1 when the total is 0.
/// Each round splits a stretch among the waves and goes on with the one that holds the target.
template <class MassOf, class Target>
__device__ inline int walk_list(int count, SampleShared& shared, MassOf mass, Target target) {
  constexpr int waves = sample_draw_threads / wave_size;
  int begin = 0;
  int end = count;
  Mass want = 0;
  for (bool whole = true;; whole = false) {
    const int part = (end - begin + waves - 1) / waves;
    const int first = begin + wave_index() * part;
    const int last = first + part < end ? first + part : end;
    Mass sum = 0;
#pragma unroll 1
    for (int i = first + lane_index(); i < last; i += wave_size) {
      sum += mass(i);
    }
    sum = wave_reduce<Sum>(sum);
    __syncthreads();
    if (lane_index() == 0) {
      shared.parts[wave_index()] = sum;
    }
    __syncthreads();
    if (whole) {
      Mass total = 0;
#pragma unroll 2
      for (int w = 0; w < waves; ++w) {
        total += shared.parts[w];
      }
      if (total == 0) {
        return -1;
      }
      want = target(total);
    }
    int w = 0;
#pragma unroll 1
    while (w < waves - 1 && want >= shared.parts[w]) {
      want -= shared.parts[w++];
    }
    begin += w * part;
    end = begin + part < end ? begin + part : end;
    if (part == 1) {
      return begin;
    }
  }
}

}  // namespace rocmforge::gpu
