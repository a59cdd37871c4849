#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "weights/gguf_file.h"

namespace rocmforge {

/// The checked content of one GGUF file before the tensor data. The tensors point into `bytes` of parse_gguf().
struct GgufHeader {
  std::uint32_t version = 0;
  std::vector<std::pair<std::string, GgufValue>> metadata;
  std::map<std::string, std::size_t, std::less<>> keys;  ///< key to index in `metadata`
  std::vector<GgufTensor> tensors;
};

/// Parses and checks `bytes`, a whole file. The address must be a multiple of 8, and the memory must outlive the tensors.
/// Throws Error without the path.
GgufHeader parse_gguf(std::span<const std::byte> bytes, int shard);

}  // namespace rocmforge
