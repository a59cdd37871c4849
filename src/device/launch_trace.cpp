#include "device/launch_trace.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>

namespace rocmforge {
namespace {

LaunchTrace own_trace;
std::atomic<LaunchTrace*> current_trace{&own_trace};

}  // namespace

void LaunchTrace::note(std::string_view name) noexcept {
  std::array<std::uint64_t, words> content{};
  std::memcpy(content.data(), name.data(), std::min(name.size(), sizeof content - 1));
  const std::uint64_t number = count_.load(std::memory_order_relaxed);
  Name& to = names_[number % kept];
  for (std::size_t i = 0; i < words; ++i) {
    to[i].store(content[i], std::memory_order_relaxed);
  }
  count_.store(number + 1, std::memory_order_release);
}

std::vector<std::string> LaunchTrace::last(std::size_t most) const {
  const std::uint64_t end = count();
  const std::uint64_t available = std::min<std::uint64_t>({end, kept, most});
  std::vector<std::string> names;
  for (std::uint64_t number = end - available; number < end; ++number) {
    std::array<char, words * sizeof(std::uint64_t) + 1> text{};
    for (std::size_t i = 0; i < words; ++i) {
      const std::uint64_t word = names_[number % kept][i].load(std::memory_order_relaxed);
      std::memcpy(text.data() + i * sizeof word, &word, sizeof word);
    }
    names.emplace_back(text.data());
  }
  return names;
}

LaunchTrace& launch_trace() { return *current_trace.load(std::memory_order_acquire); }

std::string launched_last() {
  constexpr std::size_t named_launches = 4;
  const std::vector<std::string> names = launch_trace().last(named_launches);
  return fmt::format("launched last: {}", names.empty() ? "nothing" : fmt::format("{}", fmt::join(names, ", ")));
}

void use_launch_trace(LaunchTrace& trace) { current_trace.store(&trace, std::memory_order_release); }

}  // namespace rocmforge
