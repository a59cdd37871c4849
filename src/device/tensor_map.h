#pragma once

#include <cstdint>

namespace rocmforge {

/// The encoded form of TensorBoxes (CUtensorMap) that the copy engine reads; of host and device code.
struct alignas(64) TensorMap {
  std::uint64_t words[16];
};

}  // namespace rocmforge
