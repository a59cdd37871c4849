#pragma once

#include <cstdint>
#include <vector>

#include "grammar/grammar.h"

namespace rocmforge {

struct ByteRange {
  std::uint8_t first = 0, last = 0;
  auto operator<=>(const ByteRange&) const = default;
};

/// The UTF-8 forms of the characters in `ranges` (normalized): a sequence of byte ranges matches every choice of one byte
/// from each range. No character is in two sequences.
std::vector<std::vector<ByteRange>> utf8_sequences(const std::vector<CodeRange>& ranges);

}  // namespace rocmforge
