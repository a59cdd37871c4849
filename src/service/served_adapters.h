#pragma once

#include <functional>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "engine/adapters.h"

namespace rocmforge {

/// The adapters of a served model, for those that read requests. The engine's thread tells of each change. Thread-safe.
class ServedAdapters {
 public:
  explicit ServedAdapters(std::vector<LoadedAdapter> list) { set(std::move(list)); }
  void set(std::vector<LoadedAdapter> list);
  [[nodiscard]] std::vector<LoadedAdapter> list() const;
  [[nodiscard]] std::optional<LoadedAdapter> find(std::string_view name) const;
  /// Whether an adapter of this name was unloaded: the name must not stand for the model without it. Of the first 1,024
  /// names that were ever loaded.
  [[nodiscard]] bool was_unloaded(std::string_view name) const;
  /// Whether any adapter was ever loaded.
  [[nodiscard]] bool had_any() const;

 private:
  mutable std::mutex mutex_;  // guards the members
  std::vector<LoadedAdapter> list_;
  std::set<std::string, std::less<>> names_;  ///< of all that were ever loaded
};

}  // namespace rocmforge
