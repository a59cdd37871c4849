#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "weights/gguf_file.h"

namespace rocmforge {

/// What one GGUF file says, checked: the part before the tensor data, the tensors pointing into `bytes`.
struct GgufHeader {
  std::uint32_t version = 0;
  std::vector<std::pair<std::string, GgufValue>> metadata;
  std::map<std::string, std::size_t, std::less<>> keys;  ///< key to index in `metadata`
  std::vector<GgufTensor> tensors;
};

/// `bytes` is a whole file, its start aligned to 8 bytes; it must outlive the tensors. Throws Error (without the path).
GgufHeader parse_gguf(std::span<const std::byte> bytes, int shard);

}  // namespace rocmforge
