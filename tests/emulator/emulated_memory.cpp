#include "emulator/emulated_memory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <iterator>

#include "base/error.h"

namespace rocmforge {

namespace {

constexpr std::size_t round_up(std::size_t value, std::size_t step) { return (value + step - 1) / step * step; }

}  // namespace

EmulatedFile::EmulatedFile(std::size_t size_bytes) : size_bytes_(size_bytes) {
  // Free in ordinary processes, and no part of a sanitizer's own memory.
  constexpr std::uintptr_t first = std::uintptr_t{1} << 45;
  constexpr std::uintptr_t next = std::uintptr_t{1} << 38;
  constexpr std::uintptr_t most = 4;
  file_ = memfd_create("rocmforge-emulated-device", MFD_CLOEXEC);
  if (file_ < 0 || ftruncate(file_, static_cast<off_t>(size_bytes)) != 0) {
    throw Error(fmt::format("memory of an emulated GPU: {}", std::strerror(errno)));
  }
  const int flags = MAP_SHARED | MAP_FIXED_NOREPLACE | MAP_NORESERVE;
  for (std::uintptr_t address = first; address < first + most * next; address += next) {
    void* const wanted = reinterpret_cast<void*>(address);
    if (mmap(wanted, size_bytes, PROT_READ | PROT_WRITE, flags, file_, 0) == wanted) {
      address_ = address;
      return;
    }
  }
  const int code = errno;
  close(file_);
  throw Error(fmt::format("cannot map the memory of an emulated GPU at 0x{:x} or behind ({} at a time fit): {}", first, most,
                          std::strerror(code)));
}

EmulatedFile::~EmulatedFile() {
  munmap(reinterpret_cast<void*>(address_), size_bytes_);
  close(file_);
}

EmulatedMemory::Allocation EmulatedMemory::allocate(std::size_t size_bytes) {
  if (size_bytes > free_bytes_) {
    throw Error(fmt::format("{} bytes of device memory are not free", size_bytes));
  }
  const std::size_t pages_bytes = round_up(size_bytes, page_bytes);
  std::uintptr_t at = begin_;
  for (const auto& [start, used] : used_) {
    if (used.pages.address - at >= pages_bytes + page_bytes) {
      break;
    }
    at = used.pages.address + used.pages.size_bytes + page_bytes;
  }
  if (at + pages_bytes + page_bytes > begin_ + total_bytes) {
    throw Error(fmt::format("no {} bytes of device memory in one piece", size_bytes));
  }
  const Pages pages{at, pages_bytes};
  const std::uintptr_t start = at + pages_bytes - round_up(size_bytes, alignment_bytes);
  used_.emplace(start, Used{pages, size_bytes});
  free_bytes_ -= pages_bytes;
  return {reinterpret_cast<void*>(start), pages};
}

EmulatedMemory::Pages EmulatedMemory::free(void* start) noexcept {
  const auto found = used_.find(reinterpret_cast<std::uintptr_t>(start));
  if (found == used_.end()) {
    return {};
  }
  const Pages pages = found->second.pages;
  used_.erase(found);
  free_bytes_ += pages.size_bytes;
  fallocate(file_->file(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(pages.address - file_->address()),
            static_cast<off_t>(pages.size_bytes));
  return pages;
}

bool EmulatedMemory::contains(const void* start, std::size_t size_bytes) const {
  const auto from = reinterpret_cast<std::uintptr_t>(start);
  const auto after = used_.upper_bound(from);
  if (after == used_.begin()) {
    return false;
  }
  const auto& [first, used] = *std::prev(after);
  return size_bytes <= used.size_bytes && from - first <= used.size_bytes - size_bytes;
}

}  // namespace rocmforge
