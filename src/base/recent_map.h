#pragma once

#include <cstddef>
#include <iterator>
#include <list>
#include <map>
#include <utility>

#include "base/error.h"

namespace rocmforge {

/// A map of bounded size. Before an entry is added to a full map, the caller drops the least recently used one. The caller
/// can clean up that entry first. The addresses of values do not change.
template <class Key, class Value>
class RecentMap {
 public:
  explicit RecentMap(std::size_t capacity) : capacity_(capacity) { check(capacity > 0, "a map has room for one entry"); }

  /// The value of `key`, which becomes the most recently used entry; null when there is none.
  Value* find(const Key& key) {
    const auto found = places_.find(key);
    if (found == places_.end()) {
      return nullptr;
    }
    entries_.splice(entries_.end(), entries_, found->second);
    return &found->second->second;
  }

  /// Adds an entry. The key must be new and the map must not be full.
  Value& add(const Key& key, Value value) {
    check(!full() && !places_.contains(key), "a new entry in a map with room for it");
    entries_.emplace_back(key, std::move(value));
    places_.emplace(key, std::prev(entries_.end()));
    return entries_.back().second;
  }

  [[nodiscard]] const Value& oldest() const { return entries_.front().second; }
  void drop_oldest() {
    places_.erase(entries_.front().first);
    entries_.pop_front();
  }

  [[nodiscard]] bool full() const { return entries_.size() >= capacity_; }
  [[nodiscard]] bool empty() const { return entries_.empty(); }
  [[nodiscard]] std::size_t size() const { return entries_.size(); }
  void clear() {
    places_.clear();
    entries_.clear();
  }

 private:
  using Entries = std::list<std::pair<Key, Value>>;

  std::size_t capacity_;
  Entries entries_;  ///< the least recently used first
  std::map<Key, typename Entries::iterator> places_;
};

}  // namespace rocmforge
