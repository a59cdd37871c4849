#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "service/fair_shares.h"

namespace rocmforge {

/// The bytes that all requests and answers hold together. A part is reserved for small claims: a short request finds room
/// beside any number of large ones, even of the same client. Clients share both parts. Thread-safe.
class RequestMemory {
 public:
  /// A claim of at most so much is small.
  static constexpr std::int64_t small_bytes = std::int64_t{256} << 10;
  /// The part reserved for small claims.
  static constexpr std::int64_t small_part = 16;

  /// `share_percent`: of each part, as in FairShares.
  RequestMemory(std::int64_t bytes, std::int32_t share_percent)
      : small_(bytes / small_part, share_percent), large_(bytes - bytes / small_part, share_percent) {}

  [[nodiscard]] std::int64_t capacity() const { return small_.capacity() + large_.capacity(); }
  [[nodiscard]] std::int64_t used() const { return small_.used() + large_.used(); }

 private:
  friend class MemoryClaim;

  FairShares small_;
  FairShares large_;
};

/// What one request or answer has claimed; given back when this object is destroyed. Any thread may use it, one at a time.
class MemoryClaim {
 public:
  /// `memory` may be null: then nothing is counted.
  MemoryClaim(std::shared_ptr<RequestMemory> memory, std::string client)
      : memory_(std::move(memory)), client_(std::move(client)) {}
  ~MemoryClaim() { reset(); }
  MemoryClaim(const MemoryClaim&) = delete;
  MemoryClaim& operator=(const MemoryClaim&) = delete;

  /// Takes more; or takes nothing and returns false.
  bool grow(std::int64_t bytes) { return set(bytes_ + bytes); }
  /// Takes more or gives back until `bytes` are held. Returns false, without a change, if there is not enough.
  bool set(std::int64_t bytes);
  void reset() { set(0); }
  [[nodiscard]] std::int64_t amount() const { return bytes_; }

 private:
  /// Moves the claim to `to`, if that has room for it.
  bool move(FairShares& to, std::int64_t bytes);

  std::shared_ptr<RequestMemory> memory_;
  std::string client_;
  FairShares* part_ = nullptr;  ///< the part of the memory that it is taken from; null while it is empty
  std::int64_t bytes_ = 0;
};

/// Why no more bytes are given, as a message for the client.
std::string no_memory_text(const RequestMemory& memory);

}  // namespace rocmforge
