// paged.h over pages of quantised types, and of two types. Eight elements of a key are loaded as they are stored, all of a
// round before the first is turned into floats.

#include "kernels/attention/portable/coded.h"
#include "kernels/attention/portable/paged.h"

namespace rocmforge::gpu {
namespace {

template <class Shape>
struct PagesOfAnyType {
  const AttentionArgs& args;
  const PagedPlace& place;
  int dim;  ///< the lane's first
  CodedReader k;
  CodedReader v;

  __device__ void fold(PagedLane<Shape>& lane, int key, int apart) const {
    CodedEight raw_keys[Shape::steps][Shape::eights];
    CodedEight raw_values[Shape::steps][Shape::eights];
#pragma unroll
    for (int s = 0; s < Shape::steps; ++s) {
      const int at = key + s * apart;
#pragma unroll
      for (int e = 0; e < Shape::eights; ++e) {
        const int own = dim + e * Shape::apart;
        raw_keys[s][e].clear();
        raw_values[s][e].clear();
        if (at < place.split_end && own < args.head_dim) {
          raw_keys[s][e].load(k, place.sequence, at, place.kv_head, own);
          raw_values[s][e].load(v, place.sequence, at, place.kv_head, own);
        }
      }
    }
    Eights<float, Shape> keys;
    Eights<float, Shape> values;
#pragma unroll
    for (int s = 0; s < Shape::steps; ++s) {
#pragma unroll
      for (int e = 0; e < Shape::eights; ++e) {
        raw_keys[s][e].read(k, [&](int i, float value) { put(keys[s][e], i, value); });
        raw_values[s][e].read(v, [&](int i, float value) { put(values[s][e], i, value); });
      }
    }
    lane.fold(args, place, key, apart, keys, values);
  }

 private:
  __device__ static void put(Eight<float>& eight, int i, float value) {
    eight.parts[i / 4].words[i % 4] = __builtin_bit_cast(std::uint32_t, value);
  }
};

template <class Shape>
__device__ void paged_coded(const CodedAttentionArgs& args) {
  paged_attention_of<Shape>(args.call, MaybeEnds{args.visible_end}, [&](const PagedPlace& place, int dim) {
    return PagesOfAnyType<Shape>{args.call, place, dim, {args.pages, args.pages.k}, {args.pages, args.pages.v}};
  });
}

}  // namespace

// paged_coded_DIMS_GROUP: head_dim up to DIMS, GROUP query heads at once.
#define ROCMFORGE_PAGED_CODED(lanes, dims, group)                                                           \
  ROCMFORGE_KERNEL __launch_bounds__(4 * wave_size) paged_coded_##dims##_##group(CodedAttentionArgs args) { \
    paged_coded<PagedShape<lanes, group, dims / lanes / 8>>(args);                                          \
  }
#define ROCMFORGE_PAGED_CODED_GROUPS(lanes, dims) \
  ROCMFORGE_PAGED_CODED(lanes, dims, 1)           \
  ROCMFORGE_PAGED_CODED(lanes, dims, 4)           \
  ROCMFORGE_PAGED_CODED(lanes, dims, 8)

ROCMFORGE_PAGED_CODED_GROUPS(8, 64)
ROCMFORGE_PAGED_CODED_GROUPS(16, 128)
ROCMFORGE_PAGED_CODED_GROUPS(32, 256)
ROCMFORGE_PAGED_CODED(32, 512, 4)

}  // namespace rocmforge::gpu
