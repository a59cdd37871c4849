#pragma once

#include <atomic>
#include <cstddef>
#include <new>
#include <utility>

namespace rocmforge {

/// Memory for one operation of Asio at a time, so that starting it allocates nothing. A second operation at the same time,
/// or a larger one, allocates its own memory. Any thread may start it, and another may end it.
class PostSlot {
 public:
  PostSlot() = default;
  PostSlot(const PostSlot&) = delete;
  PostSlot& operator=(const PostSlot&) = delete;

  void* take(std::size_t size) {
    return size <= sizeof(bytes_) && !used_.exchange(true, std::memory_order_acquire) ? bytes_ : ::operator new(size);
  }
  void give_back(void* memory) noexcept {
    if (memory == bytes_) {
      used_.store(false, std::memory_order_release);
    } else {
      ::operator delete(memory);
    }
  }

 private:
  alignas(std::max_align_t) std::byte bytes_[256];
  std::atomic<bool> used_{false};
};

/// An allocator for Asio.
template <class T>
class SlotAllocator {
 public:
  using value_type = T;

  explicit SlotAllocator(PostSlot& slot) : slot_(&slot) {}
  template <class Other>
  SlotAllocator(const SlotAllocator<Other>& other) : slot_(&other.slot()) {}

  [[nodiscard]] PostSlot& slot() const { return *slot_; }
  T* allocate(std::size_t count) { return static_cast<T*>(slot_->take(count * sizeof(T))); }
  void deallocate(T* memory, std::size_t /*count*/) noexcept { slot_->give_back(memory); }

 private:
  PostSlot* slot_;
};

template <class A, class B>
bool operator==(const SlotAllocator<A>& a, const SlotAllocator<B>& b) {
  return &a.slot() == &b.slot();
}

/// A handler of an operation whose memory is a slot. The handler owns the slot's holder.
template <class Function>
class SlotHandler {
 public:
  using allocator_type = SlotAllocator<std::byte>;

  SlotHandler(PostSlot& slot, Function function) : slot_(&slot), function_(std::move(function)) {}

  [[nodiscard]] allocator_type get_allocator() const noexcept { return allocator_type(*slot_); }
  template <class... Arguments>
  void operator()(Arguments&&... arguments) {
    function_(std::forward<Arguments>(arguments)...);
  }

 private:
  PostSlot* slot_;
  Function function_;
};

}  // namespace rocmforge
