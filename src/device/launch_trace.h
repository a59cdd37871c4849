#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace rocmforge {

/// The names of the last launches. It is plain memory without locks: another process or thread may read it at any time, also
/// while a kernel never ends. A name that is being written may be read in part.
class LaunchTrace {
 public:
  /// Names longer than 63 bytes are cut.
  void note(std::string_view name) noexcept;
  /// The last `most` names, the newest at the end.
  [[nodiscard]] std::vector<std::string> last(std::size_t most) const;
  /// The number of launches so far.
  [[nodiscard]] std::uint64_t count() const { return count_.load(std::memory_order_acquire); }

 private:
  static constexpr std::size_t kept = 16;
  static constexpr std::size_t words = 8;
  using Name = std::array<std::atomic<std::uint64_t>, words>;

  std::atomic<std::uint64_t> count_{0};
  std::array<Name, kept> names_{};
};

/// Where this process notes its launches: kernels on a GPU, operations of a step on the CPU.
LaunchTrace& launch_trace();
/// "launched last: attn_qkv, attention": the last four, "nothing" before the first.
std::string launched_last();
/// Notes them in `trace` from now on, for instance in memory that a parent process reads. Not while others launch.
void use_launch_trace(LaunchTrace& trace);

}  // namespace rocmforge
