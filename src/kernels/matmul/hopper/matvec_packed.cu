// Products of quantised weights with up to 8 tokens: matvec_packed_TOKENS. Memory bound; docs/kernels/hopper_matvec.md
// describes the schedule and its speed.
//
// A work-group walks over tiles of 16 rows. One warp fetches weights into a ring of slots by bulk copies, which start before
// all other work: a slot holds a step (256 columns) for each of the 8 warps that multiply. Meanwhile those warps quantise
// the activations, 16 bits with a scale for every 32, into shared memory; for more than 2 tokens a separate kernel quantises
// them and its result is copied. A step is multiplied by the integer tensor cores, scaled in float and added to the warp's
// sums. One more warp adds up the sums of two tiles at a time and writes the outputs.
//
// The order of an output's sums depends on k alone: step s belongs to the s % 8-th partial sum of its tile, whichever warp
// computes that one.

#include "kernels/matmul/hopper/matvec_quantise.h"
#include "kernels/matmul/hopper/matvec_steps.h"
#include "kernels/tile/hopper/copy.h"
#include "kernels/tile/hopper/ring.h"

namespace rocmforge::hopper {
namespace {

template <int tokens_>
class Packed : public DenseItems<Packed<tokens_>> {
 public:
  static constexpr int tokens = tokens_;
  static constexpr bool has_image = takes_image(tokens);
  static constexpr int sums = weight_tile_rows * tokens;
  using Writer = DenseWriter<tokens>;

  __device__ static int steps(const MatvecArgs& args) { return matvec_steps(args.input.k); }
  __device__ static int slot_bytes(const MatvecArgs& args) { return matvec_slot_steps * args.slot_bytes; }
  __device__ static MatvecShared shared(const MatvecArgs& args) {
    return matvec_shared(tokens, args.input.k, args.slots, args.slot_bytes);
  }

  /// Steps of one tile lie close together in a slot, those of different tiles slot_bytes apart.
  __device__ static void fetch(const MatvecArgs& args, int item, int step, int count, std::uint32_t slot, int position,
                               std::uint32_t barrier, int lane, std::uint64_t policy) {
    if (lane != 0) {
      return;
    }
    const TilePlace place = place_of(args, item);
    const MatvecPart& part = args.parts[place.part];
    const int first = step * part.step_bytes;
    const int bytes =
        min(count * part.step_bytes, part.tile_bytes - first);  // half a step may be missing at the end of a row
    copy_bytes_expected(slot + position * args.slot_bytes,
                        part.weight + place.tile * static_cast<std::int64_t>(part.tile_bytes) + first,
                        static_cast<std::uint32_t>(bytes), barrier, policy);
  }

  __device__ Packed(const MatvecArgs& args, const MatvecShared& shared, std::uint8_t* memory, int warp, int lane)
      : args_(args), shared_(shared), memory_(memory), warp_(warp), lane_(lane) {
    if constexpr (tokens == 1) {  // before wait(); with more tokens there are no registers to keep them in
      weights_.load(args.input, static_cast<int>(threadIdx.x));
    }
  }

  __device__ void stage() const {
    if constexpr (!has_image) {
      const int chunks = steps(args_) * matvec_step / 8;
      auto* const scratch = reinterpret_cast<float*>(memory_ + shared_.sums);  // no sums yet
#pragma unroll 1
      for (int t = 0; t < tokens; ++t) {
        quantise_row<tokens == 1>(args_.input, t, {0, chunks, chunks}, weights_, scratch + t * matvec_warps, writes_share,
                                  token_image(memory_, shared_, t));
      }
    }
  }

  __device__ void prepare() {
    const auto* const squares = reinterpret_cast<const float*>(memory_ + shared_.squares);
#pragma unroll
    for (int n = 0; n < groups; ++n) {
      const int token = n * of_operand + lane_ % 4 * of_operand / 4;
      factors_[n] = norm_factor(args_.input, squares + token * matvec_warps);
    }
  }

  __device__ void add_tile(int item, const Barriers& barriers, RingPlace& slot, int first, float* to) const {
    const MatvecPart& part = args_.parts[place_of(args_, item).part];
    switch (part.format) {
#define ROCMFORGE_ADD(name) return add<WeightFormat::name>(part.step_bytes, barriers, slot, first, to);
#define ROCMFORGE_ADD_CASE(name) \
  case WeightFormat::name:       \
    ROCMFORGE_ADD(name)
#define ROCMFORGE_ADD_DEFAULT(name) \
  default:                          \
    ROCMFORGE_ADD(name)
      ROCMFORGE_HOPPER_FORMATS_WITH_LAST(ROCMFORGE_ADD_CASE, ROCMFORGE_ADD_DEFAULT)
#undef ROCMFORGE_ADD_DEFAULT
#undef ROCMFORGE_ADD_CASE
#undef ROCMFORGE_ADD
    }
  }

 private:
  static constexpr int of_operand = tokens_of_operand(tokens);
  static constexpr int groups = tokens / of_operand;

  template <WeightFormat format>
  __device__ void add(int step_bytes, const Barriers& barriers, RingPlace& slot, int first, float* to) const {
    const Activations x{memory_, memory_ + shared_.info, shared_.token_bytes, shared_.token_info_bytes};
    const StepWalk walk{memory_ + shared_.ring, args_.slots, args_.slot_bytes, args_.input.k, warp_, lane_};
    float sums[2 * tokens] = {};
    add_steps<false, format, tokens>(walk, step_bytes, x, barriers, slot, first, sums);
    float factors[groups];
#pragma unroll
    for (int n = 0; n < groups; ++n) {
      factors[n] = factors_[n] * operand_scale(format);
    }
    store_sums<tokens>(sums, factors, lane_, to);
  }

  const MatvecArgs& args_;
  const MatvecShared& shared_;
  std::uint8_t* memory_;
  int warp_;
  int lane_;
  NormWeights weights_;  ///< of the thread's first chunks
  float factors_[groups];
};

}  // namespace
}  // namespace rocmforge::hopper

#define ROCMFORGE_MATVEC_PACKED(tokens, groups)                                               \
  extern "C" __global__ void __launch_bounds__(rocmforge::hopper::matvec_all_threads, groups) \
      matvec_packed_##tokens(const __grid_constant__ rocmforge::hopper::MatvecArgs args) {    \
    rocmforge::hopper::run_matvec<rocmforge::hopper::Packed<tokens>>(args);                   \
  }

ROCMFORGE_MATVEC_PACKED(1, 2)
ROCMFORGE_MATVEC_PACKED(2, 2)
ROCMFORGE_MATVEC_PACKED(4, 2)
ROCMFORGE_MATVEC_PACKED(8, 1)

/// Quantises the activations of more than 2 tokens.
extern "C" __global__ void __launch_bounds__(rocmforge::hopper::matvec_threads)
    matvec_quantise(const rocmforge::hopper::QuantiseArgs args) {
  using namespace rocmforge::hopper;
  __shared__ float scratch[matvec_warps];
  const int t = static_cast<int>(blockIdx.y);
  const MatvecShared shared = matvec_shared(args.tokens, args.input.k, 0, 0);
  const int chunks = matvec_steps(args.input.k) * matvec_step / 8;
  // The first work-group of a token sums up its squares, too.
  const int begin = static_cast<int>(blockIdx.x) * matvec_threads;
  const int end = min(begin + matvec_threads, chunks);
  const int row_end = begin == 0 && args.input.norm_weight != nullptr ? chunks : end;
  rocmforge::gpu::release_successor();
  NormWeights weights;
  weights.load(args.input, begin + static_cast<int>(threadIdx.x));
  rocmforge::gpu::wait_for_predecessor();
  const auto writes = [&](int at) { return at < end; };
  quantise_row<true>(args.input, t, {begin, end, row_end}, weights, scratch, writes, token_image(args.image, shared, t));
}
