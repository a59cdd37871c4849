#pragma once

#include <cstddef>
#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <string>

namespace rocmforge {

/// The last answers of /v1/responses, from which others go on. As JSON texts: what they take is their size. Thread-safe.
class ResponseStore {
 public:
  static constexpr std::size_t most_responses = 1024;
  static constexpr std::size_t most_bytes = std::size_t{64} << 20;

  struct Entry {
    std::string client{};
    std::string messages{};  ///< of the conversation up to the answer and with it, as /v1/chat/completions has them
    std::string response{};  ///< what was answered
  };

  /// What does not fit is not kept. Until there is room, of the client that holds most goes what nobody has used for
  /// longest.
  void add(const std::string& id, Entry entry);
  std::optional<Entry> find(const std::string& id);
  /// Whether it was there.
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
