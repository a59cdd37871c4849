#pragma once

#include <cstdint>
#include <string>

#include "ops/registry.h"

namespace rocmforge {

/// out[ids[i]] = x[from[i]], or += with Args::add: rows that are given take the place of the embeddings of tokens that are
/// no text, or are added to their hidden states.
struct OverwriteRows {
  static constexpr std::string_view name = "overwrite_rows";
  struct Spec {
    std::int64_t dim = 0;
  };
  struct Args {
    const float* x = nullptr;  ///< rows of dim elements, `x_stride` apart
    std::int64_t x_stride = 0;
    const std::int32_t* from = nullptr;  ///< [count], rows of x
    const std::int32_t* ids = nullptr;   ///< [count], rows of out; no two are equal
    std::int64_t count = 0;
    float* out = nullptr;  ///< rows of dim elements, dense, not x
    bool add = false;
  };
};

std::string to_string(const OverwriteRows::Spec& spec);

}  // namespace rocmforge
