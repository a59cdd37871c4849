#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace rocmforge {

/// Whether a file has these bytes at an offset, by which formats are known.
inline bool has_bytes(std::span<const std::uint8_t> file, std::size_t offset, std::string_view bytes) {
  return file.size() >= offset + bytes.size() &&
         std::ranges::equal(file.subspan(offset, bytes.size()), bytes,
                            [](std::uint8_t a, char b) { return a == static_cast<std::uint8_t>(b); });
}

}  // namespace rocmforge
