#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

namespace rocmforge {

/// Something of which there is only so much (places in a queue, connections, bytes), shared by clients. While others have
/// some of it a client may have its share; alone it may have all but a quarter of the rest. Half of that quarter is only for
/// clients who have little, an eighth of it at most: so two or more who take their whole shares do not keep a newcomer from
/// it. Thread-safe.
class FairShares {
 public:
  /// `share_percent`: 1 to 100 of the capacity; 100 leaves everything to everybody.
  FairShares(std::int64_t capacity, std::int32_t share_percent);

  /// Takes so much more, or nothing and returns false.
  bool take(const std::string& client, std::int64_t amount);
  /// Gives back what was taken.
  void give_back(const std::string& client, std::int64_t amount);

  [[nodiscard]] std::int64_t capacity() const { return capacity_; }
  [[nodiscard]] std::int64_t used() const;
  [[nodiscard]] std::int64_t used_by(const std::string& client) const;
  /// What a client may have now, whatever is free.
  [[nodiscard]] std::int64_t most_of(const std::string& client) const;
  /// All but what is only for clients who have little.
  [[nodiscard]] std::int64_t open() const { return capacity_ - for_little(); }
  /// What a client may have alone.
  [[nodiscard]] std::int64_t most_alone() const { return capacity_ - reserve_; }
  /// A number for a client that has some of it, the same for as long as it has; 0 for others.
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
  mutable std::mutex mutex_;  // guards what follows
  std::int64_t used_ = 0;
  std::uint64_t last_number_ = 0;
  std::map<std::string, Part> parts_;  ///< of those who have some
};

/// What somebody has of it for a client, given back at the end of this object's life. Any thread may use it, one at a time.
class Claim {
 public:
  Claim() = default;
  Claim(std::shared_ptr<FairShares> shares, std::string client) : shares_(std::move(shares)), client_(std::move(client)) {}
  ~Claim() { reset(); }
  Claim(const Claim&) = delete;
  Claim& operator=(const Claim&) = delete;

  /// Takes more, or nothing and returns false.
  bool grow(std::int64_t amount);
  /// Takes more or gives back, so that it is so much; false where there is not enough.
  bool set(std::int64_t amount);
  void reset() { set(0); }
  [[nodiscard]] std::int64_t amount() const { return amount_; }

 private:
  std::shared_ptr<FairShares> shares_;  ///< null: nothing is counted
  std::string client_;
  std::int64_t amount_ = 0;
};

}  // namespace rocmforge
