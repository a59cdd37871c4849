#include "server/api/response_store.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace rocmforge {

void ResponseStore::add(const std::string& id, Entry entry) {
  const std::lock_guard lock(mutex_);
  Stored stored{id, std::move(entry)};
  const std::size_t bytes = stored.bytes();
  if (bytes > most_bytes || places_.contains(id)) {
    return;
  }
  while (stored_.size() >= most_responses || bytes_ + bytes > most_bytes) {
    drop_one();
  }
  bytes_ += bytes;
  bytes_of_clients_[stored.entry.client] += bytes;
  stored_.push_back(std::move(stored));
  places_.emplace(id, std::prev(stored_.end()));
}

std::optional<ResponseStore::Entry> ResponseStore::find(const std::string& id) {
  const std::lock_guard lock(mutex_);
  const auto found = places_.find(id);
  if (found == places_.end()) {
    return std::nullopt;
  }
  stored_.splice(stored_.end(), stored_, found->second);
  return found->second->entry;
}

bool ResponseStore::remove(const std::string& id) {
  const std::lock_guard lock(mutex_);
  const auto found = places_.find(id);
  if (found == places_.end()) {
    return false;
  }
  drop(found->second);
  return true;
}

void ResponseStore::drop(Place place) {
  const std::size_t bytes = place->bytes();
  bytes_ -= bytes;
  const auto of_client = bytes_of_clients_.find(place->entry.client);
  of_client->second -= bytes;
  if (of_client->second == 0) {
    bytes_of_clients_.erase(of_client);
  }
  places_.erase(place->id);
  stored_.erase(place);
}

void ResponseStore::drop_one() {
  const auto& most =
      *std::ranges::max_element(bytes_of_clients_, {}, [](const auto& of_client) { return of_client.second; });
  drop(std::ranges::find_if(stored_, [&](const Stored& stored) { return stored.entry.client == most.first; }));
}

}  // namespace rocmforge
