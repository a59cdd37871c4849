#pragma once

#include "models/parts/fused_linear.h"
#include "weights/gguf_file.h"

namespace rocmforge {

/// A table in the file's format, from which single rows are read.
struct EmbeddingTable {
  Resolved<EmbeddingRows> operation;
  const GgufTensor* tensor = nullptr;
  const void* data = nullptr;  ///< [vocab, hidden] once weights are loaded
};

}  // namespace rocmforge
