#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>

namespace rocmforge {

/// The memory of emulated GPUs as a file that this process and the emulator's workers map at one address. A process may have
/// a few.
class EmulatedFile {
 public:
  explicit EmulatedFile(std::size_t size_bytes);  ///< throws Error when all addresses are taken
  ~EmulatedFile();
  EmulatedFile(const EmulatedFile&) = delete;
  EmulatedFile& operator=(const EmulatedFile&) = delete;

  [[nodiscard]] int file() const { return file_; }
  [[nodiscard]] std::uintptr_t address() const { return address_; }
  [[nodiscard]] std::size_t size_bytes() const { return size_bytes_; }

 private:
  int file_ = -1;
  std::uintptr_t address_ = 0;
  std::size_t size_bytes_;
};

/// Device memory: a part of such a file. Except for its alignment of 256 bytes, an allocation ends at the end of a page, and
/// an unused page follows.
class EmulatedMemory {
 public:
  static constexpr std::size_t page_bytes = 4096;
  static constexpr std::size_t alignment_bytes = 256;
  static constexpr std::size_t total_bytes = std::size_t{4} << 30;

  /// Part `part` of the file, total_bytes of it.
  EmulatedMemory(std::shared_ptr<const EmulatedFile> file, std::size_t part)
      : file_(std::move(file)), begin_(file_->address() + part * total_bytes) {}

  [[nodiscard]] const EmulatedFile& file() const { return *file_; }
  [[nodiscard]] std::uintptr_t begin() const { return begin_; }
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

  std::shared_ptr<const EmulatedFile> file_;
  std::uintptr_t begin_;
  std::size_t free_bytes_ = total_bytes;
  std::map<std::uintptr_t, Used> used_;  ///< by start; ascending in pages too
};

}  // namespace rocmforge
