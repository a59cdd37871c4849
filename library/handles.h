#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>

namespace rocmforge {

/// The handles of C callers: numbers that are never used twice, so that a freed handle is recognised.
/// Thread-safe.
template <class Object, class Handle>
class Handles {
 public:
  Handle* add(std::shared_ptr<Object> object) {
    const std::lock_guard lock(mutex_);
    const std::uintptr_t number = ++last_;
    objects_.emplace(number, std::move(object));
    return reinterpret_cast<Handle*>(number);  // NOLINT: it is never dereferenced
  }
  /// Null for an unknown handle.
  std::shared_ptr<Object> find(const Handle* handle) {
    const std::lock_guard lock(mutex_);
    const auto found = objects_.find(reinterpret_cast<std::uintptr_t>(handle));
    return found != objects_.end() ? found->second : nullptr;
  }
  /// Like find(), and removes the handle.
  std::shared_ptr<Object> take(const Handle* handle) {
    const std::lock_guard lock(mutex_);
    const auto node = objects_.extract(reinterpret_cast<std::uintptr_t>(handle));
    return node.empty() ? nullptr : std::move(node.mapped());
  }

 private:
  std::mutex mutex_;
  std::uintptr_t last_ = 0;
  std::unordered_map<std::uintptr_t, std::shared_ptr<Object>> objects_;
};

}  // namespace rocmforge
