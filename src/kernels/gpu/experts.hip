// Choice of experts, and products with their matrices: expert_gate_up_FORMAT, expert_down_FORMAT, expert_tiles_FORMAT. See
// experts.h.

#include "kernels/gpu/experts.h"

using namespace rocmforge;
using rocmforge::gpu::BlockCoded;
using rocmforge::gpu::ConvertSlotsArgs;
using rocmforge::gpu::ExpertTileArgs;
using rocmforge::gpu::ExpertVectorArgs;
using rocmforge::gpu::RouteArgs;
using rocmforge::gpu::SortSlotsArgs;
using rocmforge::gpu::SumSlotsArgs;

namespace rocmforge::gpu {
namespace {

/// As an integer in the same order, above 0; equal for both zeros. A NaN comes last.
__device__ std::uint32_t ordered(float value) {
  const auto bits = __builtin_bit_cast(std::uint32_t, value + 0.0f);
  const std::uint32_t key = (bits >> 31) != 0 ? ~bits : bits | 0x80000000u;
  return value == value ? key : 1u;
}

/// The index of the largest key, the lowest of equal ones. All threads of the work-group take part; those of 0 are taken.
__device__ int largest_key(const std::uint32_t* keys, int count, unsigned long long* scratch) {
  unsigned long long best = 0;
  for (int i = thread_index(); i < count; i += route_threads) {
    const unsigned long long key = static_cast<unsigned long long>(keys[i]) << 32 | static_cast<std::uint32_t>(~i);
    best = keys[i] != 0 && key > best ? key : best;
  }
  best = block_reduce<Max>(best, scratch, 0ull);
  return static_cast<int>(~static_cast<std::uint32_t>(best & 0xffffffffu));
}

/// What one token's work-group shares.
struct RouteShared {
  float scores[most_experts];
  std::uint32_t keys[most_experts];
  std::uint32_t groups[most_experts];
  float chosen[most_experts_used];
  float values[route_threads];
  unsigned long long best[route_threads];
};

/// Logits to scores, of which the softmax over all is a whole row's.
__device__ void read_scores(const RouteArgs& args, const float* logits, RouteShared& shared) {
  float largest = -infinity;
  for (int e = thread_index(); e < args.experts; e += route_threads) {
    const float x = logits[e];
    shared.scores[e] = args.score == 1 ? 1.0f / (1.0f + expf(-x)) : x;
    largest = fmaxf(largest, x);
  }
  if (args.score != 0) {
    return;
  }
  largest = block_reduce<Max>(largest, shared.values, -infinity);
  float sum = 0.0f;
  for (int e = thread_index(); e < args.experts; e += route_threads) {
    const float value = expf(shared.scores[e] - largest);
    shared.scores[e] = value;
    sum += value;
  }
  sum = block_reduce<Sum>(sum, shared.values, 0.0f);
  for (int e = thread_index(); e < args.experts; e += route_threads) {
    shared.scores[e] /= sum;
  }
}

__device__ float choice_of(const RouteArgs& args, const RouteShared& shared, int e) {
  return args.bias != nullptr ? shared.scores[e] + args.bias[e] : shared.scores[e];
}

/// Takes out the experts of all groups but the best ones.
__device__ void choose_groups(const RouteArgs& args, RouteShared& shared) {
  const int size = args.experts / args.groups;
  for (int g = thread_index(); g < args.groups; g += route_threads) {
    float first = choice_of(args, shared, g * size);
    float second = -infinity;
    for (int e = g * size + 1; e < (g + 1) * size; ++e) {
      const float value = choice_of(args, shared, e);
      second = fmaxf(second, fminf(first, value));
      first = fmaxf(first, value);
    }
    shared.groups[g] = ordered(size > 1 && args.group_best == 2 ? first + second : first);
  }
  __syncthreads();
  for (int i = 0; i < args.groups_used; ++i) {
    const int best = largest_key(shared.groups, args.groups, shared.best);
    __syncthreads();
    if (thread_index() == 0) {
      shared.groups[best] = 0;  // taken: its experts remain
    }
    __syncthreads();
  }
  for (int e = thread_index(); e < args.experts; e += route_threads) {
    shared.keys[e] = shared.groups[e / size] != 0 ? 0 : shared.keys[e];
  }
  __syncthreads();
}

/// The weights of the chosen from their scores; one thread adds up, in the order of the choice.
__device__ void write_weights(const RouteArgs& args, float* weights, RouteShared& shared) {
  if (thread_index() != 0) {
    return;
  }
  float largest = shared.chosen[0];  // the logits of the chosen where these are to be a softmax: the first is the largest
  for (int j = 1; j < args.used; ++j) {
    largest = fmaxf(largest, shared.chosen[j]);
  }
  float sum = 0.0f;
  for (int j = 0; j < args.used; ++j) {
    if (args.score == 2) {
      shared.chosen[j] = expf(shared.chosen[j] - largest);
    }
    sum += shared.chosen[j];
  }
  const bool divide = args.score == 2 || args.normalise != 0;
  const float factor = divide ? args.scale / fmaxf(sum, 1e-20f) : args.scale;
  for (int j = 0; j < args.used; ++j) {
    weights[j] = shared.chosen[j] * factor;
  }
}

}  // namespace
}  // namespace rocmforge::gpu

ROCMFORGE_KERNEL __launch_bounds__(gpu::route_threads) route_tokens(RouteArgs args) {
  __shared__ gpu::RouteShared shared;
  gpu::begin_dependent();
  const auto token = static_cast<std::int64_t>(blockIdx.x);
  gpu::read_scores(args, args.logits + token * args.experts, shared);
  for (int e = gpu::thread_index(); e < args.experts; e += gpu::route_threads) {
    shared.keys[e] = gpu::ordered(gpu::choice_of(args, shared, e));
  }
  __syncthreads();
  if (args.groups > 1) {
    gpu::choose_groups(args, shared);
  }
  for (int j = 0; j < args.used; ++j) {
    const int best = gpu::largest_key(shared.keys, args.experts, shared.best);
    __syncthreads();
    if (gpu::thread_index() == 0) {
      args.ids[token * args.used + j] = best;
      shared.chosen[j] = shared.scores[best];
      shared.keys[best] = 0;
    }
    __syncthreads();
  }
  gpu::write_weights(args, args.weights + token * args.used, shared);
}

ROCMFORGE_KERNEL __launch_bounds__(gpu::sort_threads) sort_slots(SortSlotsArgs args) {
  static_assert(gpu::sort_threads >= gpu::most_experts);
  __shared__ std::int32_t next[gpu::most_experts];    // slots of each expert, then the place of the next of them
  __shared__ std::int32_t counts[gpu::most_experts];  // slots of each expert
  const int expert = gpu::thread_index();
  if (expert < args.experts) {
    next[expert] = 0;
  }
  gpu::begin_dependent();
  __syncthreads();
  for (int slot = gpu::thread_index(); slot < args.slots; slot += gpu::sort_threads) {
    atomicAdd(&next[args.ids[slot]], 1);
  }
  __syncthreads();
  const int count = expert < args.experts ? next[expert] : 0;
  if (expert < args.experts) {
    counts[expert] = count;
  }
  __syncthreads();
  if (expert < args.experts) {
    int place = 0;
    int tile = 0;
    for (int e = 0; e < expert; ++e) {
      place += counts[e];
      tile += (counts[e] + args.tile_tokens - 1) / args.tile_tokens;
    }
    next[expert] = place;
    for (int first = 0; first < count; first += args.tile_tokens, ++tile) {
      args.tiles[tile] = {expert, place + first, min(count - first, args.tile_tokens), 0};
    }
    if (expert == args.experts - 1) {
      *args.tile_count = tile;
    }
  }
  __syncthreads();
  for (int slot = gpu::thread_index(); slot < args.slots; slot += gpu::sort_threads) {
    args.order[atomicAdd(&next[args.ids[slot]], 1)] = slot;
  }
}

namespace rocmforge::gpu {
namespace {

/// The row of x that belongs to a place, as row 0 of a conversion whose result is the place's.
__device__ ConvertRowsArgs row_of_place(const ConvertSlotsArgs& args) {
  const auto place = static_cast<std::int64_t>(blockIdx.x);
  ConvertRowsArgs own = args.rows;
  own.x += (args.order[place] / args.slots_of_row - place) * own.x_stride;
  return own;
}

}  // namespace
}  // namespace rocmforge::gpu

ROCMFORGE_KERNEL __launch_bounds__(gpu::convert_threads) convert_slots_f16(ConvertSlotsArgs args) {
  gpu::begin_dependent();
  gpu::convert_row<half>(gpu::row_of_place(args));
}
ROCMFORGE_KERNEL __launch_bounds__(gpu::convert_threads) convert_slots_bf16(ConvertSlotsArgs args) {
  gpu::begin_dependent();
  gpu::convert_row<bfloat16>(gpu::row_of_place(args));
}

ROCMFORGE_KERNEL __launch_bounds__(gpu::sum_threads) sum_slots(SumSlotsArgs args) {
  gpu::begin_dependent();
  for (std::int64_t token = blockIdx.y; token < args.tokens; token += gridDim.y) {
    for (int i = static_cast<int>(blockIdx.x) * gpu::sum_threads + gpu::thread_index(); i < args.n;
         i += static_cast<int>(gridDim.x) * gpu::sum_threads) {
      float sum = 0.0f;
      for (std::int64_t slot = token * args.used; slot < (token + 1) * args.used; ++slot) {
        sum = fmaf(args.shares[slot], args.products[slot * args.n + i], sum);
      }
      args.out[token * args.n + i] += sum;
    }
  }
}

#define ROCMFORGE_EXPERT_VECTORS(format, Block, Element, rows)                   \
  ROCMFORGE_KERNEL __launch_bounds__(gpu::matvec_threads, gpu::matvec_groups(1)) \
      expert_gate_up_##format(ExpertVectorArgs args) {                           \
    gpu::expert_gate_up<Block, gpu::expert_pairs(rows)>(args);                   \
  }                                                                              \
  ROCMFORGE_KERNEL __launch_bounds__(gpu::matvec_threads, gpu::matvec_groups(1)) \
      expert_down_##format(ExpertVectorArgs args) {                              \
    gpu::expert_down<Block, rows>(args);                                         \
  }
#define ROCMFORGE_EXPERT_TILES(format, Block, Element, rows)                                                \
  ROCMFORGE_KERNEL __launch_bounds__(gpu::expert_tile.threads) expert_tiles_##format(ExpertTileArgs args) { \
    gpu::begin_dependent();                                                                                 \
    gpu::expert_tiles<Block, Element>(args);                                                                \
  }

ROCMFORGE_MATMUL_FORMATS(ROCMFORGE_EXPERT_VECTORS)
ROCMFORGE_MATMUL_CODED(ROCMFORGE_EXPERT_VECTORS)
ROCMFORGE_MATMUL_TILE_FORMATS(ROCMFORGE_EXPERT_TILES)
ROCMFORGE_MATMUL_CODED(ROCMFORGE_EXPERT_TILES)
