#pragma once

// Products of few tokens with the matrices of their experts: expert_gate_up_FORMAT, expert_down_FORMAT. A work-group has one
// token and walks over tiles of 16 rows in the frame of matvec_roles.h, as the dense products do: the weights of the next
// tiles are in flight, even of other experts. Gate and up of a slot and 16 rows are two consecutive items; down has an item
// for each slot of 16 rows, and the warp that writes keeps the weighted sum.

#include "kernels/experts/hopper/experts_activations.h"
#include "kernels/experts/hopper/experts_finish.h"
#include "kernels/matmul/hopper/matvec_steps.h"
#include "kernels/tile/activation.h"
#include "kernels/tile/hopper/copy.h"
#include "kernels/tile/hopper/ring.h"

namespace rocmforge::hopper {

/// Quantises neighbouring rows of x to codes; called by the warps that multiply. `batch`: chunks of a thread that are loaded
/// together.
template <WeightFormat format, int batch>
__device__ inline void quantise_rows(const ExpertVectorArgs& args, const float* x, int rows,
                                     const ExpertVectorShared& shared, std::uint8_t* image) {
  const int chunks = matvec_steps(args.k) * (matvec_step / 8);
  for (int first = static_cast<int>(threadIdx.x); first < rows * chunks; first += batch * matvec_threads) {
    float values[batch][8] = {};
#pragma unroll
    for (int b = 0; b < batch; ++b) {
      if (const int at = first + b * matvec_threads; at < rows * chunks) {
        load_eight(x + std::int64_t{at / chunks} * args.k, at % chunks * 8, args.k, args.x_aligned != 0, values[b]);
      }
    }
#pragma unroll
    for (int b = 0; b < batch; ++b) {
      if (const int at = first + b * matvec_threads; at < rows * chunks) {  // the same for all lanes of a warp
        quantise_chunk<format == WeightFormat::mxfp4>(values[b], at % chunks, at / chunks, shared, image);
      }
    }
  }
}

template <WeightFormat format, bool gated>
class ExpertVectors {
 public:
  using Args = ExpertVectorArgs;
  using Shared = ExpertVectorShared;
  static constexpr bool has_image = false;
  static constexpr int sums = weight_tile_rows;
  static constexpr int step_bytes = Unit<format>::bytes;

  __device__ static Shared shared(const Args& args) {
    return expert_vector_shared(gated ? 1 : args.slots_used, args.k, args.slots, step_bytes);
  }
  __device__ static int steps(const Args& args) { return matvec_steps(args.k); }
  __device__ static int slot_bytes(const Args&) { return matvec_slot_steps * step_bytes; }
  __device__ static int items(const Args& args) {
    const int tiles = args.row_tiles * (gated ? args.slots_used : 1);
    const int own = (tiles - static_cast<int>(blockIdx.x) + static_cast<int>(gridDim.x) - 1) / static_cast<int>(gridDim.x);
    return own * (gated ? 2 : args.slots_used);
  }

  /// The matrix, slot and rows of an item. For gate and up the last slots, which are those of shared experts, come first.
  struct Place {
    int matrix;
    int slot;  ///< of the token
    int tile;

    __device__ Place(const Args& args, int item) {
      if constexpr (gated) {
        const int at = static_cast<int>(blockIdx.x) + (item >> 1) * static_cast<int>(gridDim.x);
        matrix = item & 1;
        slot = args.slots_used - 1 - at / args.row_tiles;
        tile = at % args.row_tiles;
      } else {
        matrix = 0;
        slot = args.first_slot + item % args.slots_used;
        tile = static_cast<int>(blockIdx.x) + item / args.slots_used * static_cast<int>(gridDim.x);
      }
    }
  };

  __device__ static bool is_shared(const Args& args, int slot) { return slot >= args.used - args.shared; }

  /// Gate and up let their successor start when the choice of experts has ended, so that down may read the choice at once.
  __device__ static void begin(const Args& args) {
    if constexpr (!gated) {
      gpu::release_successor();
      if (args.chosen_before == 0) {
        gpu::wait_for_predecessor();
      }
    }
  }
  __device__ static void wait(const Args&) {
    if constexpr (gated) {
      gpu::begin_in_turn();
    } else {
      gpu::wait_for_predecessor();
    }
  }
  __device__ static bool is_early(const Args& args, int item) { return !gated || is_shared(args, Place(args, item).slot); }

  class Source {
   public:
    __device__ Source(const Args& args, std::uint8_t* memory, int lane)
        : args_(args), experts_(reinterpret_cast<std::int32_t*>(memory + ExpertVectors::shared(args).experts)), lane_(lane) {
      if constexpr (gated) {
        for (int slot = args.used - args.shared + lane; slot < args.used; slot += 32) {
          experts_[slot] = args.experts - args.used + slot;
        }
        __syncwarp();
      } else {
        read_choice(args.used);
      }
    }
    __device__ void choose() {
      if constexpr (gated) {
        read_choice(args_.used - args_.shared);
      }
    }
    __device__ void fetch(int item, int step, int count, std::uint32_t slot, int position, std::uint32_t barrier,
                          std::uint64_t policy) const {
      if (lane_ != 0) {
        return;
      }
      const Place place(args_, item);
      const int first = step * step_bytes;
      const int bytes = min(count * step_bytes, args_.tile_bytes - first);  // half a step may be missing at the end
      copy_bytes_expected(slot + position * step_bytes,
                          args_.weights[place.matrix] + experts_[place.slot] * args_.expert_bytes[place.matrix] +
                              std::int64_t{place.tile} * args_.tile_bytes + first,
                          static_cast<std::uint32_t>(bytes), barrier, policy);
    }

   private:
    __device__ void read_choice(int slots) {
      for (int slot = lane_; slot < slots; slot += 32) {  // the first-level cache may still hold the ids of an earlier step
        experts_[slot] = __ldcg(args_.ids + static_cast<int>(blockIdx.z) * args_.used + slot);
      }
      __syncwarp();
    }

    const Args& args_;
    std::int32_t* experts_;
    int lane_;
  };

  __device__ ExpertVectors(const Args& args, const Shared& shared, std::uint8_t* memory, int warp, int lane)
      : args_(args), shared_(shared), memory_(memory), walk_{memory + shared.ring,
                                                             args.slots,
                                                             step_bytes,
                                                             args.k,
                                                             warp,
                                                             lane} {}

  __device__ void stage() const {
    const std::int64_t row =
        gated ? static_cast<int>(blockIdx.z) : static_cast<int>(blockIdx.z) * args_.used + args_.first_slot;
    quantise_rows<format, gated ? 2 : 3>(args_, args_.x + row * args_.k, gated ? 1 : args_.slots_used, shared_, memory_);
  }
  __device__ void prepare() const {}

  __device__ void add_tile(int item, const Barriers& barriers, RingPlace& slot, int first, float* to) const {
    const Activations x = activations_of(memory_, shared_, gated ? 0 : item % args_.slots_used);
    float sums[2] = {};
    add_steps<true, format, 1>(walk_, step_bytes, x, barriers, slot, first, sums);
    store_sums<1>(sums, {operand_scale(format)}, walk_.lane, to);
  }

  /// A lane has a row of one of two items.
  class Writer {
   public:
    __device__ Writer(const Args& args, const std::uint8_t* memory, int lane)
        : args_(args),
          experts_(reinterpret_cast<const std::int32_t*>(memory + ExpertVectors::shared(args).experts)),
          lane_(lane) {}

    template <class Wait>
    __device__ void finish(const float* partial, int first, int items, int partial_sums, const Wait& wait) {
      const int item = min(first + lane_ / weight_tile_rows, items - 1);
      const Place place(args_, item);
      const int row = place.tile * weight_tile_rows + lane_ % weight_tile_rows;
      const bool there = row < args_.n;
      // The operands for finishing a product are loaded while the sums are waited for.
      const gpu::ExpertFinish& finish = args_.finish[place.matrix];
      const int expert = experts_[place.slot];
      const float scale = finish.scale != nullptr ? finish.scale[expert] : 1.0f;
      const float bias = finish.bias != nullptr && there ? finish.bias[expert * finish.bias_stride + row] : 0.0f;
      const std::int64_t token = blockIdx.z;
      const float share = gated ? 1.0f : args_.shares[token * args_.used + place.slot];
      float* const out = args_.out + (gated ? token * args_.used + place.slot : token) * args_.n + row;
      const float before = !gated && there ? *out : 0.0f;
      wait();
      const float* of_item = partial + (item & (2 * matvec_chunk - 1)) * matvec_warps * sums + lane_ % weight_tile_rows;
      float sum = of_item[0];
#pragma unroll
      for (int l = 1; l < matvec_warps; ++l) {
        if (l < partial_sums) {
          sum += of_item[l * sums];
        }
      }
      const float product = sum * scale + bias;
      const float other = __shfl_xor_sync(0xffffffffu, product, weight_tile_rows);
      if constexpr (gated) {
        if (lane_ < weight_tile_rows && there) {
          *out = gpu::activate(args_.activation, product, other);
        }
      } else {
        const float other_share = __shfl_xor_sync(0xffffffffu, share, weight_tile_rows);
        const bool is_second = lane_ >= weight_tile_rows;
        add(first, is_second ? other : product, is_second ? other_share : share, before, !is_second && there, out);
        if (first + 1 < items) {
          add(first + 1, is_second ? product : other, is_second ? share : other_share, before, is_second && there, out);
        }
      }
    }

   private:
    /// Adds an item's part of the sum over the slots, which all lanes keep. A lane that `writes` stores after the last slot.
    __device__ void add(int item, float product, float share, float before, bool writes, float* out) {
      const int slot = item % args_.slots_used;
      total_ = fmaf(share, product, slot == 0 ? 0.0f : total_);
      if (slot == args_.slots_used - 1 && writes) {
        *out = before + total_;
      }
    }

    const Args& args_;
    const std::int32_t* experts_;
    int lane_;
    float total_ = 0.0f;
  };

 private:
  const Args& args_;
  const Shared& shared_;
  std::uint8_t* memory_;
  StepWalk walk_;
};

}  // namespace rocmforge::hopper
