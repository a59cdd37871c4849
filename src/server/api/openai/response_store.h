#pragma once

#include <cstddef>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

namespace rocmforge {

/// The last answers of /v1/responses, which later requests may continue. Kept as JSON texts, whose size is known.
/// Thread-safe.
class ResponseStore {
 public:
  static constexpr std::size_t most_responses = 1024;
  static constexpr std::size_t most_bytes = std::size_t{64} << 20;

  using Text = std::shared_ptr<const std::string>;
  /// The long texts that come from the request are shared with who writes its answer.
  struct Entry {
    std::string client{};    ///< whose share it is counted in
    std::string owner{};     ///< the API key that may use it; empty: there are no keys, and whoever knows its id may
    Text messages{};         ///< of the request, in the form of /v1/chat/completions: an array without its end
    std::string answer{};    ///< the rest of that array: the answer as one more message
    std::string response{};  ///< the answer: an object without its end
    Text repeated{};         ///< the rest of that object: what it repeats of the request

    [[nodiscard]] std::size_t bytes() const;
  };

  /// To make room, the least recently used answers of the client that stores most, with the new one counted, are dropped.
  /// An answer that is too large, or for which only clients that store less would have to make room, is not kept.
  void add(const std::string& id, Entry entry);
  /// Null if it is not there or not the owner's: others do not learn which.
  std::shared_ptr<const Entry> find(const std::string& id, std::string_view owner);
  /// Returns whether it was stored.
  bool remove(const std::string& id, std::string_view owner);

 private:
  struct Stored {
    std::string id;
    std::shared_ptr<const Entry> entry;
    std::size_t cost;  ///< bytes, at least a response's part of the store: so that the one limit bounds the number too
  };
  using Place = std::list<Stored>::iterator;

  void drop(Place place);
  /// Drops one so that `client` may store `cost` more; false if nobody stores more than it would.
  bool drop_one_for(const std::string& client, std::size_t cost);
  [[nodiscard]] Place place_of(const std::string& id, std::string_view owner);

  std::mutex mutex_;
  std::list<Stored> stored_;  ///< used longest ago first
  std::map<std::string, Place> places_;
  std::map<std::string, std::size_t> costs_;  ///< of clients that store something
  std::size_t cost_ = 0;
};

}  // namespace rocmforge
