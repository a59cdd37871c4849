#include "service/fair_shares.h"

#include <algorithm>

#include "base/error.h"

namespace rocmforge {

FairShares::FairShares(std::int64_t capacity, std::int32_t share_percent)
    : capacity_(capacity),
      share_(std::max<std::int64_t>(capacity / 100 * share_percent + capacity % 100 * share_percent / 100, 1)),
      reserve_(std::max<std::int64_t>(capacity - share_, 0) / 4) {
  check(capacity >= 0 && share_percent >= 1 && share_percent <= 100, "a share is 1 to 100 percent of something");
}

bool FairShares::take(const std::string& client, std::int64_t amount) {
  const std::lock_guard lock(mutex_);
  const auto found = parts_.find(client);
  const std::int64_t own = found != parts_.end() ? found->second.amount : 0;
  if (amount > capacity_ - used_ || amount > most_beside(used_ - own) - own) {
    return false;
  }
  if (amount > open() - used_ && !is_little(own + amount)) {
    return false;
  }
  if (amount > 0) {
    Part& part = found != parts_.end() ? found->second : parts_[client];
    part.number = part.number != 0 ? part.number : ++last_number_;
    part.amount += amount;
    used_ += amount;
  }
  return true;
}

void FairShares::give_back(const std::string& client, std::int64_t amount) {
  const std::lock_guard lock(mutex_);
  const auto found = parts_.find(client);
  if (amount == 0 || found == parts_.end()) {
    return;
  }
  used_ -= amount;
  found->second.amount -= amount;
  if (found->second.amount <= 0) {
    parts_.erase(found);
  }
}

std::int64_t FairShares::used() const {
  const std::lock_guard lock(mutex_);
  return used_;
}

std::int64_t FairShares::used_by(const std::string& client) const {
  const std::lock_guard lock(mutex_);
  const auto found = parts_.find(client);
  return found != parts_.end() ? found->second.amount : 0;
}

std::int64_t FairShares::most_of(const std::string& client) const {
  const std::lock_guard lock(mutex_);
  const auto found = parts_.find(client);
  return most_beside(used_ - (found != parts_.end() ? found->second.amount : 0));
}

std::uint64_t FairShares::number_of(const std::string& client) const {
  const std::lock_guard lock(mutex_);
  const auto found = parts_.find(client);
  return found != parts_.end() ? found->second.number : 0;
}

bool Claim::grow(std::int64_t amount) {
  if (shares_ != nullptr && !shares_->take(client_, amount)) {
    return false;
  }
  amount_ += amount;
  return true;
}

bool Claim::set(std::int64_t amount) {
  if (amount > amount_) {
    return grow(amount - amount_);
  }
  if (shares_ != nullptr) {
    shares_->give_back(client_, amount_ - amount);
  }
  amount_ = amount;
  return true;
}

}  // namespace rocmforge
