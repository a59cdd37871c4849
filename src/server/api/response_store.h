#pragma once

#include <cstddef>
#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <string>

namespace rocmforge {

/// The last answers of /v1/responses, which later requests may continue. Kept as JSON texts, whose size is known.
/// Thread-safe.
class ResponseStore {
 public:
  static constexpr std::size_t most_responses = 1024;
  static constexpr std::size_t most_bytes = std::size_t{64} << 20;

  struct Entry {
    std::string client{};
    std::string messages{};  ///< the conversation with the answer, in the form of /v1/chat/completions
    std::string response{};  ///< the answer
  };

  /// An answer that is too large is not kept. To make room, the least recently used answers of the client that stores most
  /// are dropped.
  void add(const std::string& id, Entry entry);
  std::optional<Entry> find(const std::string& id);
  /// Returns whether it was stored.
  bool remove(const std::string& id);

 private:
  struct Stored {
    std::string id;
    Entry entry;
    [[nodiscard]] std::size_t bytes() const { return entry.messages.size() + entry.response.size() + id.size(); }
  };
  using Place = std::list<Stored>::iterator;

  void drop(Place place);
  void drop_one();

  std::mutex mutex_;
  std::list<Stored> stored_;  ///< used longest ago first
  std::map<std::string, Place> places_;
  std::map<std::string, std::size_t> bytes_of_clients_;
  std::size_t bytes_ = 0;
};

}  // namespace rocmforge
