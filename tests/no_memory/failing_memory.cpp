#include "no_memory/failing_memory.h"

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <limits>
#include <new>

namespace {

constexpr std::int64_t never = std::numeric_limits<std::int64_t>::max();
std::atomic<std::int64_t> number{0}, first_failing{never}, first_good{never};
thread_local bool spared = false;

void* allocate(std::size_t size, std::size_t alignment) noexcept {
  if (!spared) {
    const std::int64_t own = ++number;
    if (own >= first_failing && own < first_good) {
      return nullptr;
    }
  }
  const std::size_t rounded = (size + alignment - 1) / alignment * alignment;
  return alignment > alignof(std::max_align_t) ? std::aligned_alloc(alignment, rounded) : std::malloc(size > 0 ? size : 1);
}

void* allocate_or_throw(std::size_t size, std::size_t alignment = 1) {
  void* const memory = allocate(size, alignment);
  return memory != nullptr ? memory : throw std::bad_alloc();
}

}  // namespace

void* operator new(std::size_t size) { return allocate_or_throw(size); }
void* operator new[](std::size_t size) { return allocate_or_throw(size); }
void* operator new(std::size_t size, std::align_val_t alignment) {
  return allocate_or_throw(size, static_cast<std::size_t>(alignment));
}
void* operator new(std::size_t size, const std::nothrow_t&) noexcept { return allocate(size, 1); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, const std::nothrow_t&) noexcept { std::free(memory); }

/// For the leak sanitizer. A constructor of the JSON library that runs out of memory leaks the parts it has made. This
/// happens only where memory fails on purpose.
extern "C" const char* __lsan_default_suppressions();  // NOLINT: the sanitizer's name
extern "C" const char* __lsan_default_suppressions() { return "leak:nlohmann::json_abi"; }

namespace rocmforge {

void FailingMemory::fail(std::int64_t first, std::int64_t count) {
  first_failing = never;  // so that nothing fails between the next two stores
  number = 0;
  first_good = first + count;
  first_failing = first;
}

std::int64_t FailingMemory::stop() {
  first_failing = never;
  return number;
}

void FailingMemory::spare_this_thread() { spared = true; }

}  // namespace rocmforge
