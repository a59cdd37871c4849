#pragma once

// Activations of experts with up to eight tokens: rows of codes, written as in matvec_quantise.h and read by
// matvec_packed.h.

#include "kernels/experts/hopper/experts_args.h"
#include "kernels/matmul/hopper/matvec_packed.h"
#include "kernels/matmul/hopper/matvec_quantise.h"

namespace rocmforge::hopper {

/// Columns [at, at + 8) of a row, zeros from k on.
__device__ inline void load_eight(const float* row, int at, int k, bool aligned, float (&values)[8]) {
  if (aligned && at + 8 <= k) {
    const float4 low = *reinterpret_cast<const float4*>(row + at);
    const float4 high = *reinterpret_cast<const float4*>(row + at + 4);
    values[0] = low.x, values[1] = low.y, values[2] = low.z, values[3] = low.w;
    values[4] = high.x, values[5] = high.y, values[6] = high.z, values[7] = high.w;
    return;
  }
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    values[i] = at + i < k ? row[at + i] : 0.0f;
  }
}

/// Quantises eight activations from column 8 `chunk` of row `row` of an image; four neighbouring lanes have a block.
/// `for_mxfp4`: codes are in the order of its nibbles.
template <bool for_mxfp4>
__device__ inline void quantise_chunk(const float (&values)[8], int chunk, int row, const MatvecShared& layout,
                                      std::uint8_t* image) {
  quantise<for_mxfp4>(values, static_cast<int>(threadIdx.x) % 32,
                      image + row * layout.token_bytes + chunk / 4 * 64 + chunk % 4 * 8,
                      image + layout.info + row * layout.token_info_bytes + chunk / 4 * 8);
}

/// Row `row` of an image of several rows.
__device__ inline Activations activations_of(const std::uint8_t* image, const MatvecShared& layout, int row) {
  return {image + row * layout.token_bytes, image + layout.info + row * layout.token_info_bytes, layout.token_bytes,
          layout.token_info_bytes};
}

/// A unit of `format`, expert_unit_columns of 16 rows: a record or two.
template <WeightFormat format>
struct Unit {
  static constexpr WeightLayout layout = weight_layout(format);
  static constexpr int records = expert_unit_columns / layout.elems;
  static constexpr int bytes = records * layout.record_bytes;

  /// Groups of 128 columns of unit `unit` of a row with `all` records.
  __device__ static int groups(int unit, int all) { return records == 2 ? min(all - unit * 2, 2) : 2; }
  /// The bytes of the unit that exist.
  __device__ static std::uint32_t bytes_of(int unit, int all) {
    return static_cast<std::uint32_t>(min(all - unit * records, records) * layout.record_bytes);
  }
};

}  // namespace rocmforge::hopper
