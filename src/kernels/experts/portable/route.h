#pragma once

// The choice of experts by one wave: see ops/experts.h, RouteTokens.

#include "kernels/experts/portable/experts_args.h"
#include "kernels/tile/device_code.h"

namespace rocmforge::gpu {

/// `value` as an integer above 0 with the same order; equal for both zeros. A NaN comes last.
__device__ inline std::uint32_t ordered(float value) {
  const auto bits = __builtin_bit_cast(std::uint32_t, value + 0.0f);
  const std::uint32_t key = (bits >> 31) != 0 ? ~bits : bits | 0x80000000u;
  return value == value ? key : 1u;
}

/// What the wave of one token shares.
struct RouteShared {
  float scores[most_experts];
  std::uint32_t keys[most_experts];
  std::uint32_t groups[most_experts];
  float chosen[most_experts_used];
};

/// The index of the largest key, the lowest of equal ones; keys of 0 are taken. At least one key is not 0.
__device__ inline int largest_key(const std::uint32_t* keys, int count) {
  std::uint32_t own = 0;
  int at = 0;
  for (int i = lane_index(); i < count; i += wave_size) {
    const std::uint32_t key = keys[i];
    at = key > own ? i : at;
    own = key > own ? key : own;
  }
  const std::uint32_t best = wave_max(own);
  return static_cast<int>(~wave_max(own == best ? ~static_cast<std::uint32_t>(at) : 0u));
}

/// Takes the largest key out of `keys` and returns its index.
__device__ inline int take_largest(std::uint32_t* keys, int count) {
  const int best = largest_key(keys, count);
  if (best % wave_size == lane_index()) {
    keys[best] = 0;  // the lane that reads it
  }
  return best;
}

/// Logits to scores; the softmax over all experts needs the whole row.
__device__ inline void read_scores(const RouteChoice& choice, const float* logits, RouteShared& shared) {
  float largest = -infinity;
  for (int e = lane_index(); e < choice.experts; e += wave_size) {
    const float x = logits[e];
    shared.scores[e] = choice.score == 1 ? 1.0f / (1.0f + expf(-x)) : x;
    largest = fmaxf(largest, x);
  }
  if (choice.score != 0) {
    return;
  }
  largest = wave_reduce<Max>(largest);
  float sum = 0.0f;
  for (int e = lane_index(); e < choice.experts; e += wave_size) {
    const float value = expf(shared.scores[e] - largest);
    shared.scores[e] = value;
    sum += value;
  }
  sum = wave_reduce<Sum>(sum);
  for (int e = lane_index(); e < choice.experts; e += wave_size) {
    shared.scores[e] /= sum;
  }
}

__device__ inline float choice_of(const RouteChoice& choice, const RouteShared& shared, int e) {
  return choice.bias != nullptr ? shared.scores[e] + choice.bias[e] : shared.scores[e];
}

/// Takes out the experts of all groups but the best ones.
__device__ inline void choose_groups(const RouteChoice& choice, RouteShared& shared) {
  const int size = choice.experts / choice.groups;
  for (int g = lane_index(); g < choice.groups; g += wave_size) {
    float first = choice_of(choice, shared, g * size);
    float second = -infinity;
    for (int e = g * size + 1; e < (g + 1) * size; ++e) {
      const float value = choice_of(choice, shared, e);
      second = fmaxf(second, fminf(first, value));
      first = fmaxf(first, value);
    }
    shared.groups[g] = ordered(size > 1 && choice.group_best == 2 ? first + second : first);
  }
  sync_wave();
  for (int i = 0; i < choice.groups_used; ++i) {
    (void)take_largest(shared.groups, choice.groups);
  }
  sync_wave();
  for (int e = lane_index(); e < choice.experts; e += wave_size) {
    shared.keys[e] = shared.groups[e / size] != 0 ? 0 : shared.keys[e];
  }
  sync_wave();
}

/// The weights of the chosen from their scores.
__device__ inline void write_weights(const RouteChoice& choice, float* weights, RouteShared& shared) {
  sync_wave();
  float largest = -infinity;
  for (int j = lane_index(); j < choice.used; j += wave_size) {
    largest = fmaxf(largest, shared.chosen[j]);
  }
  largest = wave_reduce<Max>(largest);
  float sum = 0.0f;
  for (int j = lane_index(); j < choice.used; j += wave_size) {
    const float x = shared.chosen[j];
    const float value = choice.score == 2 ? expf(x - largest) : choice.score == 3 ? 1.0f / (1.0f + expf(-x)) : x;
    shared.chosen[j] = value;
    sum += value;
  }
  sum = wave_reduce<Sum>(sum);
  const bool divide = choice.score == 2 || choice.normalise != 0;
  const float factor = divide ? choice.scale / fmaxf(sum, 1e-20f) : choice.scale;
  for (int j = lane_index(); j < choice.used; j += wave_size) {
    weights[j] = shared.chosen[j] * factor;  // of this lane's own
  }
}

/// Scores and keys of the experts lane, lane + wave_size and so on, in registers: reading them again for each of the chosen
/// takes most of the time.
template <int most>
struct HeldKeys {
  std::uint32_t keys[most];

  __device__ HeldKeys(const RouteShared& shared, int experts) {
#pragma unroll
    for (int i = 0; i < most; ++i) {
      const int e = lane_index() + i * wave_size;
      keys[i] = e < experts ? shared.keys[e] : 0;
    }
  }

  /// As take_largest().
  __device__ int take() {
    std::uint32_t own = 0;
    int at = 0;
#pragma unroll
    for (int i = 0; i < most; ++i) {
      at = keys[i] > own ? i : at;
      own = keys[i] > own ? keys[i] : own;
    }
    const std::uint32_t best = wave_max(own);
    const int expert = lane_index() + at * wave_size;
    const int taken = static_cast<int>(~wave_max(own == best ? ~static_cast<std::uint32_t>(expert) : 0u));
#pragma unroll
    for (int i = 0; i < most; ++i) {
      keys[i] = taken == lane_index() + i * wave_size ? 0 : keys[i];
    }
    return taken;
  }
};

/// The shared experts of a token, behind the chosen ones.
__device__ inline void add_shared(const RouteChoice& choice, const float* logits, std::int32_t* ids, float* weights) {
  for (int j = lane_index(); j < choice.shared; j += wave_size) {
    const int expert = choice.experts + j;
    ids[choice.used + j] = expert;
    weights[choice.used + j] =
        choice.shared_gates != 0 ? choice.shared_scale / (1.0f + expf(-logits[expert])) : choice.shared_scale;
  }
}

/// The experts of token `token` by its `logits`. All lanes of one wave take part.
__device__ inline void choose_experts(const RouteChoice& choice, const float* logits, std::int64_t token,
                                      RouteShared& shared) {
  std::int32_t* ids = choice.ids + token * (choice.used + choice.shared);
  float* weights = choice.weights + token * (choice.used + choice.shared);
  add_shared(choice, logits, ids, weights);
  read_scores(choice, logits, shared);
  sync_wave();
  for (int e = lane_index(); e < choice.experts; e += wave_size) {
    shared.keys[e] = ordered(choice_of(choice, shared, e));
  }
  sync_wave();
  if (choice.groups > 1) {
    choose_groups(choice, shared);
  }
  const auto choose = [&](auto&& take) {
    for (int j = 0; j < choice.used; ++j) {
      const int best = take();
      if (lane_index() == 0) {
        ids[j] = best;
        shared.chosen[j] = shared.scores[best];
      }
    }
  };
  if (choice.experts <= 4 * wave_size) {
    HeldKeys<4> held(shared, choice.experts);
    choose([&] { return held.take(); });
  } else if (choice.experts <= 8 * wave_size) {
    HeldKeys<8> held(shared, choice.experts);
    choose([&] { return held.take(); });
  } else {
    choose([&] { return take_largest(shared.keys, choice.experts); });
  }
  write_weights(choice, weights, shared);
}

}  // namespace rocmforge::gpu
