#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>

namespace rocmforge {

/// What C callers hold in place of objects: numbers that are never used twice, so that one that was given back is known.
/// Thread-safe.
template <class Object, class Handle>
class Handles {
 public:
  Handle* add(std::shared_ptr<Object> object) {
    const std::lock_guard lock(mutex_);
    const std::uintptr_t number = ++last_;
    objects_.emplace(number, std::move(object));
    return reinterpret_cast<Handle*>(number);  // NOLINT: nobody reads what it points at
  }
  /// Null for a handle that there is not.
  std::shared_ptr<Object> find(const Handle* handle) {
    const std::lock_guard lock(mutex_);
    const auto found = objects_.find(reinterpret_cast<std::uintptr_t>(handle));
    return found != objects_.end() ? found->second : nullptr;
  }
  /// The same, and there is none afterwards.
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
