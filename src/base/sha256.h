#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace rocmforge {

/// The SHA-256 of `bytes` (FIPS 180-4), as its eight words.
std::array<std::uint32_t, 8> sha256(std::span<const std::uint8_t> bytes);

}  // namespace rocmforge
