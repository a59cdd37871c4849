#include "server/api/openai/response_store.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace rocmforge {

std::size_t ResponseStore::Entry::bytes() const {
  const auto size = [](const Text& text) { return text != nullptr ? text->size() : 0; };
  return size(messages) + answer.size() + response.size() + size(repeated);
}

void ResponseStore::add(const std::string& id, Entry entry) {
  constexpr std::size_t least_cost = most_bytes / most_responses;
  const std::size_t bytes = entry.bytes() + id.size();
  const std::size_t cost = std::max(bytes, least_cost);
  auto shared = std::make_shared<const Entry>(std::move(entry));
  const std::lock_guard lock(mutex_);
  if (cost > most_bytes || places_.contains(id)) {
    return;
  }
  while (cost_ + cost > most_bytes) {
    if (!drop_one_for(shared->client, cost)) {
      return;
    }
  }
  cost_ += cost;
  costs_[shared->client] += cost;
  stored_.push_back({id, std::move(shared), cost});
  places_.emplace(id, std::prev(stored_.end()));
}

std::shared_ptr<const ResponseStore::Entry> ResponseStore::find(const std::string& id, std::string_view owner) {
  const std::lock_guard lock(mutex_);
  const Place place = place_of(id, owner);
  if (place == stored_.end()) {
    return nullptr;
  }
  stored_.splice(stored_.end(), stored_, place);
  return place->entry;
}

bool ResponseStore::remove(const std::string& id, std::string_view owner) {
  const std::lock_guard lock(mutex_);
  const Place place = place_of(id, owner);
  if (place == stored_.end()) {
    return false;
  }
  drop(place);
  return true;
}

ResponseStore::Place ResponseStore::place_of(const std::string& id, std::string_view owner) {
  const auto found = places_.find(id);
  return found != places_.end() && found->second->entry->owner == owner ? found->second : stored_.end();
}

void ResponseStore::drop(Place place) {
  cost_ -= place->cost;
  const auto of_client = costs_.find(place->entry->client);
  of_client->second -= place->cost;
  if (of_client->second == 0) {
    costs_.erase(of_client);
  }
  places_.erase(place->id);
  stored_.erase(place);
}

bool ResponseStore::drop_one_for(const std::string& client, std::size_t cost) {
  const auto own = costs_.find(client);
  const auto most = std::ranges::max_element(costs_, {}, [](const auto& of_client) { return of_client.second; });
  const bool is_own = (own == costs_.end() ? 0 : own->second) + cost >= most->second;
  const auto& from = is_own ? own : most;
  if (from == costs_.end()) {
    return false;
  }
  drop(std::ranges::find_if(stored_, [&](const Stored& stored) { return stored.entry->client == from->first; }));
  return true;
}

}  // namespace rocmforge
