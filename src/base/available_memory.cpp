#include "base/available_memory.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <iterator>
#include <string>

namespace rocmforge {

namespace {

std::string read_text(const char* path) {
  std::ifstream stream(path);
  return {std::istreambuf_iterator<char>(stream), {}};
}

// The memory left under the limit of control groups v2, in the files that a container sees as its own. The pages of cached
// files are in use but can be reclaimed, so they count as available.
std::optional<std::int64_t> available_in_container() {
  const auto limit = find_number(read_text("/sys/fs/cgroup/memory.max"), "");
  const auto used = find_number(read_text("/sys/fs/cgroup/memory.current"), "");
  if (!limit || !used) {
    return std::nullopt;
  }
  const std::int64_t cached_files = find_number(read_text("/sys/fs/cgroup/memory.stat"), "file").value_or(0);
  return std::max<std::int64_t>(0, *limit - std::max<std::int64_t>(0, *used - cached_files));
}

}  // namespace

std::optional<std::int64_t> find_number(std::string_view text, std::string_view key) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (!line.starts_with(key)) {
      continue;
    }
    line.remove_prefix(key.size());
    const std::size_t digits = line.find_first_not_of(": \t");
    std::int64_t number = 0;
    // "file" must not match "file_mapped 12": only separators may come before the number.
    if (digits != std::string_view::npos &&
        std::from_chars(line.data() + digits, line.data() + line.size(), number).ec == std::errc()) {
      return number;
    }
  }
  return std::nullopt;
}

std::optional<std::int64_t> available_memory_bytes() {
  std::optional<std::int64_t> available = find_number(read_text("/proc/meminfo"), "MemAvailable");
  if (available) {
    *available *= 1024;
  }
  if (const auto in_container = available_in_container()) {
    available = available ? std::min(*available, *in_container) : *in_container;
  }
  return available;
}

}  // namespace rocmforge
