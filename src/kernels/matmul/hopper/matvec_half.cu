// Products of F16 and BF16 weights, as the file stores them, with up to 8 tokens: matvec_f16_TOKENS, matvec_bf16_TOKENS.
// Memory bound; docs/kernels/hopper_matvec.md.
//
// As matvec_packed.cu, with steps of 128 columns and copies of 2 KB of each row. A lane takes, of each 32 columns, eight of
// two rows. These are the operand A of two tensor core instructions if k is taken in another order, which the activations
// have too. Activations are rounded to 16 bits, for F16 multiplied by a power of two that scales a token's largest to 2^14.

#include "kernels/matmul/hopper/matvec_post_norm.h"
#include "kernels/matmul/hopper/matvec_roles.h"
#include "kernels/tile/hopper/barrier.h"
#include "kernels/tile/hopper/copy.h"
#include "kernels/tile/hopper/mma.h"
#include "kernels/tile/hopper/pairs.h"
#include "kernels/tile/hopper/ring.h"

namespace rocmforge::hopper {
namespace {

/// The post_norm_factor of each token; 0 where there is no post-norm.
template <int tokens>
__device__ inline void post_norm_factors(const MatvecInput& input, float* scratch, float (&factors)[tokens]) {
#pragma unroll
  for (float& factor : factors) {
    factor = 0.0f;
  }
  if (takes_sums(tokens) || input.post_norm.y == nullptr) {
    return;
  }
  const int warp = static_cast<int>(threadIdx.x) / 32;
#pragma unroll
  for (int t = 0; t < tokens; ++t) {
    const float squares = t < input.tokens ? post_norm_squares(input, t) : 0.0f;
    if (threadIdx.x % 32 == 0) {
      scratch[t * matvec_warps + warp] = squares;
    }
  }
  named_barrier<1, matvec_threads>();  // of the warps that multiply
#pragma unroll
  for (int t = 0; t < tokens; ++t) {
    factors[t] = post_norm_factor(input, scratch + t * matvec_warps);
  }
}

/// Elements [8 at, 8 at + 8) of a token's x, or of its sum with the norm of y.
template <int tokens>
__device__ inline void load_input(const MatvecInput& input, int t, int at, float post_factor, float (&values)[8]) {
  load_eight(input, input.x + t * input.x_stride, at, values);
  if (!takes_sums(tokens) && input.post_norm.y != nullptr) {
    float y[8];
    float weights[8];
    load_eight(input, input.post_norm.y + t * input.post_norm.y_stride, at, y);
    load_eight(input, input.post_norm.weight, at, weights);
    add_post_norm(input.post_norm, post_factor, y, weights, values);
  }
}

/// For each token the largest magnitude (before the norm's factor) and the norm's factor.
template <int tokens>
__device__ inline void survey(const MatvecInput& input, const float (&post)[tokens], float* scratch,
                              float (&largest)[tokens], float (&norms)[tokens]) {
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int t = 0; t < tokens; ++t) {
    float squares = 0.0f;
    std::uint32_t most = 0;  // bits of a magnitude, so that NaN is the largest of all
    if (t < input.tokens) {
      for (int at = static_cast<int>(threadIdx.x); at < input.k / 8; at += matvec_threads) {
        float values[8];
        load_input<tokens>(input, t, at, post[t], values);
#pragma unroll
        for (int i = 0; i < 8; ++i) {
          squares = fmaf(values[i], values[i], squares);
        }
        if (input.norm_weight != nullptr) {
          float weights[8];
          load_eight(input, input.norm_weight, at, weights);
#pragma unroll
          for (int i = 0; i < 8; ++i) {
            values[i] *= weights[i];
          }
        }
#pragma unroll
        for (int i = 0; i < 8; ++i) {
          most = max(most, __float_as_uint(values[i]) & 0x7fffffffu);
        }
      }
    }
#pragma unroll
    for (int mask = 16; mask > 0; mask /= 2) {
      squares += __shfl_xor_sync(0xffffffffu, squares, mask);
      most = max(most, __shfl_xor_sync(0xffffffffu, most, mask));
    }
    if (lane == 0) {
      scratch[t * matvec_warps + warp] = squares;
      scratch[(tokens + t) * matvec_warps + warp] = __uint_as_float(most);
    }
  }
  named_barrier<1, matvec_threads>();  // of the warps that multiply
#pragma unroll
  for (int t = 0; t < tokens; ++t) {
    float squares = 0.0f;
    std::uint32_t most = 0;
#pragma unroll
    for (int w = 0; w < matvec_warps; ++w) {
      squares += scratch[t * matvec_warps + w];
      most = max(most, __float_as_uint(scratch[(tokens + t) * matvec_warps + w]));
    }
    largest[t] = __uint_as_float(most);
    norms[t] = input.norm_weight != nullptr ? rsqrtf(squares / static_cast<float>(input.k) + input.norm_epsilon) : 1.0f;
  }
}

/// The power of two that scales `largest` into [2^14, 2^15); 1 for zero and for values without such a power.
__device__ inline float scale_up(float largest) {
  const std::uint32_t exponent = __float_as_uint(largest) >> 23;
  return exponent < 15 || exponent >= 255 ? 1.0f : __uint_as_float((254 + 14 - exponent) << 23);
}

template <class Element, int tokens_>
class Halves : public DenseItems<Halves<Element, tokens_>> {
 public:
  static constexpr int tokens = tokens_;
  static constexpr bool has_image = false;
  static constexpr int sums = weight_tile_rows * tokens;
  using Writer = DenseWriter<tokens>;

  __device__ static int steps(const MatvecArgs& args) { return (args.input.k + matvec_half_step - 1) / matvec_half_step; }
  __device__ static int slot_bytes(const MatvecArgs&) { return matvec_half_slot_bytes; }
  __device__ static MatvecShared shared(const MatvecArgs& args) {
    return matvec_half_shared(tokens, args.input.k, args.slots);
  }

  /// Fetches one row of the tile in each of 16 lanes.
  __device__ static void fetch(const MatvecArgs& args, int item, int step, int count, std::uint32_t slot, int position,
                               std::uint32_t barrier, int lane, std::uint64_t policy) {
    if (lane >= weight_tile_rows) {
      return;
    }
    const TilePlace place = place_of(args, item);
    const MatvecPart& part = args.parts[place.part];
    const int row = min(place.tile * weight_tile_rows + lane, part.n - 1);
    const int first = step * matvec_half_step;
    const int columns = min(count * matvec_half_step, args.input.k - first);
    copy_bytes_expected(slot + lane * matvec_half_row_bytes + position * matvec_half_step * 2,
                        part.weight + 2 * (static_cast<std::int64_t>(row) * args.input.k + first),
                        static_cast<std::uint32_t>(2 * columns), barrier, policy);
  }

  __device__ Halves(const MatvecArgs& args, const MatvecShared& shared, std::uint8_t* memory, int warp, int lane)
      : args_(args), shared_(shared), memory_(memory), warp_(warp), lane_(lane) {}

  __device__ void stage() const {
    const MatvecInput& input = args_.input;
    float post[tokens];
    float largest[tokens];
    float norms[tokens];
    auto* const scratch = reinterpret_cast<float*>(memory_ + shared_.sums);  // no sums yet
    post_norm_factors<tokens>(input, scratch, post);
    survey<tokens>(input, post, scratch + tokens * matvec_warps, largest, norms);
#pragma unroll
    for (int t = 0; t < tokens; ++t) {
      const float up = __is_same(Element, half) ? scale_up(largest[t] * norms[t]) : 1.0f;
      if (threadIdx.x == 0) {
        reinterpret_cast<float*>(memory_ + shared_.info)[t] = 1.0f / up;
      }
      std::uint8_t* const row = memory_ + t * shared_.token_bytes;
      for (int at = static_cast<int>(threadIdx.x); at < steps(args_) * matvec_half_step / 8; at += matvec_threads) {
        float values[8] = {};
        if (t < input.tokens && 8 * at < input.k) {
          load_input<tokens>(input, t, at, post[t], values);
          if (!takes_sums(tokens) && input.post_norm.y != nullptr && writes_share(at)) {
            store_sums_of_row(input, t, at, values);
          }
          if (input.norm_weight != nullptr) {
            float weights[8];
            load_eight(input, input.norm_weight, at, weights);
#pragma unroll
            for (int i = 0; i < 8; ++i) {
              values[i] = values[i] * weights[i] * norms[t];
            }
          }
        }
        uint4 words;
        words.x = pack_pair<Element>(values[0] * up, values[1] * up);
        words.y = pack_pair<Element>(values[2] * up, values[3] * up);
        words.z = pack_pair<Element>(values[4] * up, values[5] * up);
        words.w = pack_pair<Element>(values[6] * up, values[7] * up);
        *reinterpret_cast<uint4*>(row + 16 * at) = words;
      }
    }
  }

  __device__ void prepare() {
    const auto* const scales = reinterpret_cast<const float*>(memory_ + shared_.info);
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      factors_[e] = scales[min(lane_ % 4 * 2 + e, tokens - 1)];
    }
  }

  __device__ void add_tile(int, const Barriers& barriers, RingPlace& slot, int first, float* to) const {
    const int g = lane_ / 4;
    const int c = lane_ % 4;
    const std::uint8_t* const x = memory_ + (g < tokens ? g : 0) * shared_.token_bytes + 16 * c;
    const std::uint8_t* const ring =
        memory_ + shared_.ring + g * matvec_half_row_bytes + warp_ * matvec_half_step * 2 + 16 * c;
    float sums[4] = {};
    for (int step = first; step < steps(args_); step += matvec_warps) {
      const std::uint32_t full = barriers.slots + 16 * slot.slot;
      barrier_wait(full, slot.parity);
      uint4 weights[chunks][2];
#pragma unroll
      for (int j = 0; j < chunks; ++j) {
        // Memory after the end of a row was never written.
        const bool there = step * matvec_half_step + 32 * j + 8 * c < args_.input.k;
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          weights[j][h] = *reinterpret_cast<const uint4*>(ring + slot.slot * matvec_half_slot_bytes +
                                                          8 * h * matvec_half_row_bytes + 64 * j);
          if (!there) {
            weights[j][h] = {0, 0, 0, 0};
          }
        }
      }
      __syncwarp();
      if (lane_ == 0) {
        barrier_arrive(full + 8);
      }
      slot.advance(args_.slots);
#pragma unroll
      for (int j = 0; j < chunks; ++j) {
        uint4 b{0, 0, 0, 0};
        if (g < tokens) {
          b = *reinterpret_cast<const uint4*>(x + step * matvec_half_step * 2 + 64 * j);
        }
        const uint4& low = weights[j][0];
        const uint4& high = weights[j][1];
        const std::uint32_t a0[4] = {low.x, high.x, low.y, high.y};
        const std::uint32_t a1[4] = {low.z, high.z, low.w, high.w};
        multiply<Element>(sums, a0, b.x, b.y);
        multiply<Element>(sums, a1, b.z, b.w);
      }
    }
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      const int token = 2 * c + e;
      if (token < tokens) {
        to[token * weight_tile_rows + g] = sums[e] * factors_[e];
        to[token * weight_tile_rows + 8 + g] = sums[2 + e] * factors_[e];
      }
    }
  }

 private:
  static constexpr int chunks = matvec_half_step / 32;

  const MatvecArgs& args_;
  const MatvecShared& shared_;
  std::uint8_t* memory_;
  int warp_;
  int lane_;
  float factors_[2];
};

}  // namespace
}  // namespace rocmforge::hopper

#define ROCMFORGE_MATVEC_HALF(name, Element, tokens)                                            \
  extern "C" __global__ void __launch_bounds__(rocmforge::hopper::matvec_all_threads, 2)        \
      matvec_##name##_##tokens(const __grid_constant__ rocmforge::hopper::MatvecArgs args) {    \
    rocmforge::hopper::run_matvec<rocmforge::hopper::Halves<rocmforge::Element, tokens>>(args); \
  }
#define ROCMFORGE_MATVEC_HALVES(name, Element) \
  ROCMFORGE_MATVEC_HALF(name, Element, 1)      \
  ROCMFORGE_MATVEC_HALF(name, Element, 2)      \
  ROCMFORGE_MATVEC_HALF(name, Element, 4)      \
  ROCMFORGE_MATVEC_HALF(name, Element, 8)

ROCMFORGE_MATVEC_HALVES(f16, half)
ROCMFORGE_MATVEC_HALVES(bf16, bfloat16)

/// Sums of post-norms alone. Grid: slices of 8 * matvec_threads columns, tokens.
extern "C" __global__ void __launch_bounds__(rocmforge::hopper::matvec_threads)
    matvec_sums(const rocmforge::hopper::MatvecInput input) {
  using namespace rocmforge::hopper;
  __shared__ float scratch[matvec_warps];
  rocmforge::gpu::begin_dependent();
  const int t = static_cast<int>(blockIdx.y);
  const float squares = post_norm_squares(input, t);
  if (threadIdx.x % 32 == 0) {
    scratch[threadIdx.x / 32] = squares;
  }
  __syncthreads();
  if (const int at = static_cast<int>(blockIdx.x * matvec_threads + threadIdx.x); 8 * at < input.k) {
    float values[8];
    load_input<1>(input, t, at, post_norm_factor(input, scratch), values);
    store_sums_of_row(input, t, at, values);
  }
}
