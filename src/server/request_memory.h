#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "server/fair_shares.h"

namespace rocmforge {

/// The bytes that requests and answers hold together. A part of them is for what is small: however much large requests
/// take, a short question finds room, also one of the client that takes it. Clients share both parts. Thread-safe.
class RequestMemory {
 public:
  /// A claim of no more is small.
  static constexpr std::int64_t small_bytes = std::int64_t{256} << 10;
  /// The part for what is small, of all.
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

/// What one request or answer has of it, given back at the end of this object's life. Any thread may use it, one at a time.
class MemoryClaim {
 public:
  /// `memory` may be null: then nothing is counted.
  MemoryClaim(std::shared_ptr<RequestMemory> memory, std::string client)
      : memory_(std::move(memory)), client_(std::move(client)) {}
  ~MemoryClaim() { reset(); }
  MemoryClaim(const MemoryClaim&) = delete;
  MemoryClaim& operator=(const MemoryClaim&) = delete;

  /// Takes more, or nothing and returns false.
  bool grow(std::int64_t bytes) { return set(bytes_ + bytes); }
  /// Takes more or gives back, so that it is so much; false, and no change, where there is not enough.
  bool set(std::int64_t bytes);
  void reset() { set(0); }
  [[nodiscard]] std::int64_t amount() const { return bytes_; }

 private:
  /// All of it comes from `to`, where that has so much.
  bool move(FairShares& to, std::int64_t bytes);

  std::shared_ptr<RequestMemory> memory_;
  std::string client_;
  FairShares* part_ = nullptr;  ///< of the memory, from which it is; null while there is nothing
  std::int64_t bytes_ = 0;
};

/// Why no more bytes are given, for the client.
std::string no_memory_text(const RequestMemory& memory);

}  // namespace rocmforge
