#pragma once

#include <cstdint>
#include <string>

#include "ops/registry.h"
#include "ops/sample_row.h"

namespace rocmforge {

/// Draws one token from each row of logits. Per row, in this order: bias, penalties, mask, the row's stages, draw. At a
/// temperature of 0 the stages do nothing. Of equal logits the lower id comes first; NaN counts as forbidden.
/// +inf counts as the largest finite number, -inf as forbidden.
/// With a target_probability the weights of the remaining tokens are exp(adaptive_exponent()), else their probabilities.
/// The draw walks the remaining tokens in the order of their ids until their probabilities exceed `uniform`, so that
/// every kernel draws the same token, except where rounding decides.
struct SampleTokens {
  static constexpr std::string_view name = "sample";

  struct Spec {
    std::int64_t vocab = 0;
  };

  using Row = SampleRow;
  using Adjustment = SampleAdjustment;

  struct Args {
    float* logits = nullptr;  ///< [num_rows, vocab]; adjustments and masks are made in place
    std::int64_t num_rows = 0;
    const Row* rows = nullptr;                ///< [num_rows]
    const Adjustment* adjustments = nullptr;  ///< row r has those from first_adjustment on
    const std::uint32_t* masks = nullptr;     ///< [num_masks, sample_mask_words(vocab)], when a row has one
    bool all_greedy = false;                  ///< every row's temperature is 0 or less
    std::int32_t* out = nullptr;              ///< [num_rows], -1 where every token is forbidden
    /// [num_rows], where tells_probability(): of the drawn token among those that the stages left, 0 where none was drawn;
    /// may be null where no row asks for it.
    float* probabilities = nullptr;
    void* workspace = nullptr;  ///< [num_rows, sample_workspace_bytes(vocab)]
  };
};

/// Scratch of one row, the same for every kernel.
std::size_t sample_workspace_bytes(std::int64_t vocab);

std::string to_string(const SampleTokens::Spec& spec);

}  // namespace rocmforge
