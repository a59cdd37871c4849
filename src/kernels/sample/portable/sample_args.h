#pragma once

#include <cstdint>

#include "ops/sample_row.h"

namespace rocmforge {

/// The arguments of all kernels in sample.hip.
struct SampleArgs {
  float* logits = nullptr;                        ///< [num_rows, vocab]
  const SampleRow* rows = nullptr;                ///< [num_rows]
  const SampleAdjustment* adjustments = nullptr;  ///< [at least every row's first_adjustment + num_adjustments]
  const std::uint32_t* masks = nullptr;           ///< [num_masks, sample_mask_words(vocab)], when a row has one
  std::int32_t* out = nullptr;                    ///< [num_rows]
  float* probabilities = nullptr;                 ///< [num_rows], when a row tells its own
  SampleScratch* scratch = nullptr;               ///< [num_rows]
  std::int32_t num_rows = 0;
  std::int32_t vocab = 0;         ///< at most sample_most_tokens
  std::int32_t chunk_tokens = 0;  ///< ids of one of SampleScratch::chunks chunks; they cover the vocabulary
};

/// The sum of that many weights of up to 2^45, and one more, fits 64 bits.
inline constexpr std::int32_t sample_most_tokens = (1 << 19) - 2;

inline constexpr std::int32_t sample_scan_threads = 256;
inline constexpr std::int32_t sample_scan_chunks = 8;  ///< of one work-group
inline constexpr std::int32_t sample_greedy_threads = 256;
inline constexpr std::int32_t sample_draw_threads = 1024;

}  // namespace rocmforge
