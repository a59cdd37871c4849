#include "service/served_adapters.h"

#include <algorithm>
#include <utility>

namespace rocmforge {
namespace {

constexpr std::size_t most_names = 1024;

}  // namespace

void ServedAdapters::set(std::vector<LoadedAdapter> list) {
  const std::lock_guard lock(mutex_);
  list_ = std::move(list);
  for (const LoadedAdapter& adapter : list_) {
    if (names_.size() < most_names) {
      names_.insert(adapter.name);
    }
  }
}

std::vector<LoadedAdapter> ServedAdapters::list() const {
  const std::lock_guard lock(mutex_);
  return list_;
}

std::optional<LoadedAdapter> ServedAdapters::find(std::string_view name) const {
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find(list_, name, &LoadedAdapter::name);
  return found == list_.end() ? std::nullopt : std::optional(*found);
}

bool ServedAdapters::was_unloaded(std::string_view name) const {
  const std::lock_guard lock(mutex_);
  return names_.contains(name) && std::ranges::find(list_, name, &LoadedAdapter::name) == list_.end();
}

bool ServedAdapters::had_any() const {
  const std::lock_guard lock(mutex_);
  return !names_.empty();
}

}  // namespace rocmforge
