#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

namespace rocmforge {

/// A limited resource (places in a queue, connections, bytes), shared by clients. While others use some of it, a client may
/// use its share; alone it may use all but a quarter of the rest. Half of that quarter is reserved for clients that use at
/// most an eighth of it, so that several clients with full shares do not keep a new one out. Thread-safe.
class FairShares {
 public:
  /// `share_percent`: 1 to 100 of the capacity; 100 turns the shares off.
  FairShares(std::int64_t capacity, std::int32_t share_percent);

  /// Takes `amount` for the client, or takes nothing and returns false.
  bool take(const std::string& client, std::int64_t amount);
  /// Gives back what was taken.
  void give_back(const std::string& client, std::int64_t amount);

  [[nodiscard]] std::int64_t capacity() const { return capacity_; }
  [[nodiscard]] std::int64_t used() const;
  [[nodiscard]] std::int64_t used_by(const std::string& client) const;
  /// The most that a client may use now, whatever is free.
  [[nodiscard]] std::int64_t most_of(const std::string& client) const;
  /// All but what is reserved for clients that use little.
  [[nodiscard]] std::int64_t open() const { return capacity_ - for_little(); }
  /// The most that a client may use alone.
  [[nodiscard]] std::int64_t most_alone() const { return capacity_ - reserve_; }
  /// A number for a client that uses some of it, the same until the client uses none; 0 for others.
  [[nodiscard]] std::uint64_t number_of(const std::string& client) const;

 private:
  struct Part {
    std::uint64_t number = 0;
    std::int64_t amount = 0;
  };
  [[nodiscard]] std::int64_t for_little() const { return reserve_ / 2; }
  [[nodiscard]] bool is_little(std::int64_t amount) const { return amount <= for_little() / 8; }
  [[nodiscard]] std::int64_t most_beside(std::int64_t others) const { return others > 0 ? share_ : capacity_ - reserve_; }

  std::int64_t capacity_;
  std::int64_t share_;
  std::int64_t reserve_;
  mutable std::mutex mutex_;  // guards the members below
  std::int64_t used_ = 0;
  std::uint64_t last_number_ = 0;
  std::map<std::string, Part> parts_;  ///< of clients that use some
};

/// What is taken for a client; given back when this object is destroyed. Any thread may use it, one at a time.
class Claim {
 public:
  Claim() = default;
  Claim(std::shared_ptr<FairShares> shares, std::string client) : shares_(std::move(shares)), client_(std::move(client)) {}
  ~Claim() { reset(); }
  Claim(const Claim&) = delete;
  Claim& operator=(const Claim&) = delete;

  /// Takes more; or takes nothing and returns false.
  bool grow(std::int64_t amount);
  /// Takes more or gives back until `amount` is held. Returns false, without a change, if there is not enough.
  bool set(std::int64_t amount);
  void reset() { set(0); }
  [[nodiscard]] std::int64_t amount() const { return amount_; }

 private:
  std::shared_ptr<FairShares> shares_;  ///< null: not counted
  std::string client_;
  std::int64_t amount_ = 0;
};

}  // namespace rocmforge
