#include <algorithm>
#include <array>
#include <cstddef>
#include <functional>
#include <mutex>
#include <new>

#include "base/json.h"

namespace rocmforge {
namespace {

/// Hands out pieces from its beginning to its end, and starts again when all pieces have been returned. Each piece is used
/// only for a moment.
class Reserve {
 public:
  void* take(std::size_t bytes) {
    constexpr std::size_t unit = alignof(std::max_align_t);
    const std::lock_guard lock(mutex_);
    if (bytes > bytes_.size() - used_) {
      throw std::bad_alloc();
    }
    void* piece = bytes_.data() + used_;
    used_ += std::min((bytes + unit - 1) / unit * unit, bytes_.size() - used_);
    ++pieces_;
    return piece;
  }

  /// Returns false for memory that is not of this reserve.
  bool give_back(const void* piece) noexcept {
    const std::byte* const begin = bytes_.data();
    const auto* const at = static_cast<const std::byte*>(piece);
    if (std::less<>()(at, begin) || !std::less<>()(at, begin + bytes_.size())) {
      return false;
    }
    const std::lock_guard lock(mutex_);
    if (--pieces_ == 0) {
      used_ = 0;
    }
    return true;
  }

 private:
  std::mutex mutex_;
  std::size_t used_ = 0;
  std::size_t pieces_ = 0;
  alignas(std::max_align_t) std::array<std::byte, list_reserve_bytes> bytes_{};
};

constinit Reserve reserve;  // one for the program, like the heap that it replaces

}  // namespace

void* take_list_memory(std::size_t bytes) {
  void* const memory = ::operator new(bytes, std::nothrow);
  return memory != nullptr ? memory : reserve.take(bytes);
}

void give_back_list_memory(void* memory) noexcept {
  if (!reserve.give_back(memory)) {
    ::operator delete(memory);
  }
}

}  // namespace rocmforge
