#pragma once

#include <cstddef>
#include <cstdint>

#include "base/math.h"

namespace rocmforge {

/// Places one array after another in a call's workspace, each at a multiple of 256 bytes; only counts the bytes where there
/// is no memory.
class Places {
 public:
  explicit Places(void* base) : base_(static_cast<std::byte*>(base)) {}

  template <class Element>
  void take(Element*& pointer, std::int64_t count) {
    pointer = base_ == nullptr ? nullptr : reinterpret_cast<Element*>(base_ + bytes_);
    bytes_ += static_cast<std::size_t>(round_up(count * static_cast<std::int64_t>(sizeof(Element)), 256));
  }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }

 private:
  std::byte* base_;
  std::size_t bytes_ = 0;
};

}  // namespace rocmforge
