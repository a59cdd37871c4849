#pragma once

#include <array>
#include <cstddef>

#include "base/error.h"
#include "device/device.h"

namespace rocmforge {

/// The kernels of one operation and form, one for each number of tokens that a tile has. A table of these, by form, takes
/// the place of names that would be made for each call.
template <class Args, std::size_t count>
struct TokenKernels {
  struct Entry {
    int tokens;
    Kernel<Args> kernel;
  };
  std::array<Entry, count> entries;

  /// check()s that there is one for exactly so many tokens.
  [[nodiscard]] constexpr const Kernel<Args>& of(int tokens) const {
    for (const Entry& entry : entries) {
      if (entry.tokens == tokens) {
        return entry.kernel;
      }
    }
    fail_check("no kernel for so many tokens in a tile");
  }
};

}  // namespace rocmforge
