#pragma once

#include <cstdint>
#include <string>

#include "ops/registry.h"
#include "tensor/tensor.h"

namespace rocmforge {

/// out[t] = scale * table[ids[t]], dequantised; with Args::add out[t] += that.
struct EmbeddingRows {
  static constexpr std::string_view name = "embedding";

  struct Spec {
    DType table = DType::f32;
    std::int64_t vocab = 0;
    std::int64_t hidden = 0;
  };

  struct Args {
    /// [tokens], each in [0, vocab), or with `drawn` the negative number drawn_token(r), which stands for drawn[r].
    const std::int32_t* ids = nullptr;
    std::int64_t tokens = 0;
    const void* table = nullptr;  ///< [vocab, hidden] in Spec::table's format
    float scale = 1.0f;
    float* out = nullptr;  ///< [tokens, hidden]
    /// The output of SampleTokens. A -1 in it gives a row of NaN. Null: no id is negative.
    const std::int32_t* drawn = nullptr;
    bool add = false;
  };

  /// The id that means row `row` of Args::drawn. The function is its own inverse.
  static constexpr std::int32_t drawn_token(std::int32_t row) { return -1 - row; }
};

std::string to_string(const EmbeddingRows::Spec& spec);

}  // namespace rocmforge
