#include "tokenizer/charsmap.h"

#include <algorithm>
#include <cstddef>

#include "base/error.h"

namespace rocmforge {
namespace {

constexpr std::size_t longest_text = 256, longest_replacement = 1024;

std::uint32_t read_u32(std::string_view bytes, std::size_t at) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < 4; ++i) {
    value |= std::uint32_t{static_cast<unsigned char>(bytes[at + i])} << (8 * i);
  }
  return value;
}

std::uint32_t offset_of(std::uint32_t node) { return (node >> 10) << ((node & (1u << 9)) >> 6); }
bool ends_text(std::uint32_t node) { return (node >> 8 & 1) != 0; }

}  // namespace

Charsmap::Charsmap(std::string_view bytes) {
  if (bytes.empty()) {
    return;
  }
  const std::size_t size = bytes.size() < 4 ? 0 : read_u32(bytes, 0);
  if (size == 0 || size % 4 != 0 || size > bytes.size() - 4) {
    throw Error("precompiled_charsmap has " + std::to_string(bytes.size()) + " bytes and a table of " +
                std::to_string(size) + ", which contradict each other");
  }
  for (std::size_t at = 4; at < 4 + size; at += 4) {
    nodes_.push_back(read_u32(bytes, at));
  }
  replacements_ = bytes.substr(4 + size);
  std::size_t begin = 0;
  for (std::size_t end = 0; begin < replacements_.size(); begin = end + 1) {
    end = replacements_.find('\0', begin);
    if (end == std::string::npos || end - begin > longest_replacement) {
      throw Error("precompiled_charsmap has a replacement at byte " + std::to_string(4 + size + begin) +
                  (end == std::string::npos ? " without an end" : " that is longer than 1,024 bytes"));
    }
  }
}

Charsmap::Match Charsmap::match(std::string_view text) const {
  Match best;
  std::uint32_t index = offset_of(node(0));
  for (std::size_t i = 0; i < std::min(text.size(), longest_text) && text[i] != '\0'; ++i) {
    const std::uint32_t byte = static_cast<unsigned char>(text[i]);
    index ^= byte;
    const std::uint32_t reached = node(index);
    if ((reached & (1u << 31 | 0xFFu)) != byte) {
      break;
    }
    index ^= offset_of(reached);
    const std::uint32_t at = node(index) & ~(1u << 31);
    if (ends_text(reached) && at < replacements_.size()) {
      best = {i + 1, std::string_view(replacements_).substr(at, replacements_.find('\0', at) - at)};
    }
  }
  return best;
}

}  // namespace rocmforge
