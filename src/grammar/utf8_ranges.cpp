#include "grammar/utf8_ranges.h"

#include <algorithm>
#include <array>
#include <string>

#include "base/utf8.h"

namespace rocmforge {
namespace {

// Last code point of each length of the encoding.
constexpr std::array<char32_t, 4> last_of_length = {0x7F, 0x7FF, 0xFFFF, 0x10FFFF};

/// first..last have the same length. They are split where the low bits of only one end run through all values.
void add_sequences(char32_t first, char32_t last, std::vector<std::vector<ByteRange>>& sequences) {
  for (int bits = 6; bits <= 18 && last > last_of_length[0]; bits += 6) {
    const char32_t low = (char32_t{1} << bits) - 1;
    if ((first & ~low) == (last & ~low)) {
      break;
    }
    if ((first & low) != 0) {
      add_sequences(first, first | low, sequences);
      add_sequences((first | low) + 1, last, sequences);
      return;
    }
    if ((last & low) != low) {
      add_sequences(first, (last & ~low) - 1, sequences);
      add_sequences(last & ~low, last, sequences);
      return;
    }
  }
  std::string first_bytes, last_bytes;
  append_utf8(first_bytes, first);
  append_utf8(last_bytes, last);
  std::vector<ByteRange>& sequence = sequences.emplace_back();
  for (std::size_t i = 0; i < first_bytes.size(); ++i) {
    sequence.push_back({static_cast<std::uint8_t>(first_bytes[i]), static_cast<std::uint8_t>(last_bytes[i])});
  }
}

}  // namespace

std::vector<std::vector<ByteRange>> utf8_sequences(const std::vector<CodeRange>& ranges) {
  std::vector<std::vector<ByteRange>> sequences;
  for (const CodeRange& range : ranges) {
    char32_t first = range.first;
    for (const char32_t longest : last_of_length) {
      if (first <= std::min(range.last, longest)) {
        add_sequences(first, std::min(range.last, longest), sequences);
        first = longest + 1;
      }
    }
  }
  return sequences;
}

}  // namespace rocmforge
