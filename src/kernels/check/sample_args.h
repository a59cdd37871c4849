#pragma once

#include <cstdint>

#include "ops/sample_row.h"

namespace rocmforge::check_kernels {

/// SampleTokens: ops/sample.h. Grid: rows.
struct SampleCheckArgs {
  float* logits;                        ///< [num_rows, vocab], adjusted in place
  const SampleRow* rows;                ///< [num_rows]
  const SampleAdjustment* adjustments;  ///< of all rows
  const std::uint32_t* masks;           ///< [num_masks, sample_mask_words(vocab)]
  std::int32_t* out;                    ///< [num_rows]
  float* probabilities;                 ///< [num_rows], when a row tells its own
  SampleScratch* scratch;               ///< [num_rows], which holds a number of each thread
  std::int64_t num_rows;
  std::int64_t vocab;
};
inline constexpr int sample_check_threads = 256;
static_assert(sizeof(SampleScratch) >= sample_check_threads * sizeof(double));

}  // namespace rocmforge::check_kernels
