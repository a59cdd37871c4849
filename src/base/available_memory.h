#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace rocmforge {

/// Bytes this process can still use without swapping: what the system has available, or less in a container with a limit.
/// The contents of files count as available. Empty when the system does not say.
std::optional<std::int64_t> available_memory_bytes();

/// The number after `key` in text such as "MemAvailable:  123 kB" or "file 4096", one entry per line, in the unit given.
std::optional<std::int64_t> find_number(std::string_view text, std::string_view key);

}  // namespace rocmforge
