#pragma once

#include <cstdint>
#include <string>

#include "ops/registry.h"
#include "tensor/tensor.h"

namespace rocmforge {

/// out[t] = scale * table[ids[t]], dequantised.
struct EmbeddingRows {
  static constexpr std::string_view name = "embedding";

  struct Spec {
    DType table = DType::f32;
    std::int64_t vocab = 0;
    std::int64_t hidden = 0;
  };

  struct Args {
    const std::int32_t* ids = nullptr;  ///< [tokens], each in [0, vocab)
    std::int64_t tokens = 0;
    const void* table = nullptr;  ///< [vocab, hidden] in Spec::table's format
    float scale = 1.0f;
    float* out = nullptr;  ///< [tokens, hidden]
  };
};

std::string to_string(const EmbeddingRows::Spec& spec);

}  // namespace rocmforge
