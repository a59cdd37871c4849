#pragma once

#include <cstdint>
#include <string>

#include "ops/registry.h"

namespace rocmforge {

/// Draws one token from each row of logits. Per row, in this order: bias, penalties, top-k, typical-p, top-p, min-p,
/// temperature, draw. Of equal logits the lower id comes first; NaN counts as forbidden.
/// The draw walks the tokens that are left in the order of their ids until their probabilities exceed `uniform`, so that
/// every kernel draws the same token but where rounding decides.
struct SampleTokens {
  static constexpr std::string_view name = "sample";

  struct Spec {
    std::int64_t vocab = 0;
  };

  /// One row's parameters, plain data. The defaults take the most likely token.
  struct Row {
    double uniform = 0.0;      ///< in [0, 1): the random number of this draw
    float temperature = 0.0f;  ///< 0 or less: the most likely token
    float top_p = 1.0f;        ///< keep the most likely tokens that together reach this mass
    float min_p = 0.0f;        ///< keep tokens at least this share of the most likely one's probability
    float typical_p = 1.0f;    ///< keep the tokens closest to the entropy that together reach this mass
    float repeat_penalty = 1.0f;
    float frequency_penalty = 0.0f;
    float presence_penalty = 0.0f;
    std::int32_t top_k = 0;  ///< 0 or less: all
    std::int32_t first_adjustment = 0;
    std::int32_t num_adjustments = 0;
  };

  /// What happens to one token's logit: += bias; then, when it occurred `count` > 0 times in the window,
  /// (logit > 0 ? / : *) repeat_penalty and -= count * frequency_penalty + presence_penalty.
  struct Adjustment {
    std::int32_t id = 0;  ///< each at most once a row
    std::int32_t count = 0;
    float bias = 0.0f;
  };

  struct Args {
    float* logits = nullptr;  ///< [num_rows, vocab]; adjustments are made in place
    std::int64_t num_rows = 0;
    const Row* rows = nullptr;                ///< [num_rows]
    const Adjustment* adjustments = nullptr;  ///< row r has those from first_adjustment on
    bool all_greedy = false;                  ///< every row's temperature is 0 or less
    std::int32_t* out = nullptr;              ///< [num_rows], -1 where every token is forbidden
    void* workspace = nullptr;                ///< [num_rows, sample_workspace_bytes(vocab)]
  };
};

/// Scratch of one row, the same for every kernel.
std::size_t sample_workspace_bytes(std::int64_t vocab);

std::string to_string(const SampleTokens::Spec& spec);

}  // namespace rocmforge
