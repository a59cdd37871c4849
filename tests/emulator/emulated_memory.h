#pragma once

#include <cstddef>
#include <cstdint>
#include <map>

namespace rocmforge {

/// Device memory as a file that this process and the emulator's worker map at one address. Except for its alignment of 256
/// bytes, an allocation ends at the end of a page, and an unused page follows.
class EmulatedMemory {
 public:
  static constexpr std::size_t page_bytes = 4096;
  static constexpr std::size_t alignment_bytes = 256;
  /// Free in ordinary processes, and no part of a sanitizer's own memory.
  static constexpr std::uintptr_t address = std::uintptr_t{1} << 45;
  static constexpr std::size_t total_bytes = std::size_t{4} << 30;

  EmulatedMemory();  ///< throws Error when the address is taken
  ~EmulatedMemory();
  EmulatedMemory(const EmulatedMemory&) = delete;
  EmulatedMemory& operator=(const EmulatedMemory&) = delete;

  [[nodiscard]] int file() const { return file_; }
  [[nodiscard]] std::size_t free_bytes() const { return free_bytes_; }

  struct Pages {
    std::uintptr_t address = 0;
    std::size_t size_bytes = 0;
  };
  struct Allocation {
    void* start = nullptr;
    Pages pages;
  };
  /// Throws Error when there is no room.
  Allocation allocate(std::size_t size_bytes);
  /// The pages that an allocation had; they read as zero when they are allocated again. Size 0: `start` is no allocation.
  Pages free(void* start) noexcept;
  /// Whether [start, start + size_bytes) lies in one allocation.
  [[nodiscard]] bool contains(const void* start, std::size_t size_bytes) const;

 private:
  struct Used {
    Pages pages;
    std::size_t size_bytes;  ///< from the start on
  };

  int file_ = -1;
  std::size_t free_bytes_ = total_bytes;
  std::map<std::uintptr_t, Used> used_;  ///< by start; ascending in pages too
};

}  // namespace rocmforge
