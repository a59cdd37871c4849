#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace rocmforge {

/// Bytes that this process can still use without swapping: what the system reports as available, or less if the limit of its
/// container is lower. Cached pages of files count as available. Empty when the system does not report it.
std::optional<std::int64_t> available_memory_bytes();

/// The number after `key` in text such as "MemAvailable:  123 kB" or "file 4096", one entry on each line. It is returned in
/// the unit of the text. Empty when no line has one.
std::optional<std::int64_t> find_number(std::string_view text, std::string_view key);

}  // namespace rocmforge
