#pragma once

#include <bit>
#include <cstdint>
#include <vector>

namespace rocmforge {

/// Maps pairs of symbols to their merge. The hash table is filled once and read for every pair of neighbours.
class PairTable {
 public:
  struct Entry {
    std::uint64_t key = unused;
    std::uint32_t rank = 0;
    std::int32_t result = -1;
  };

  /// A table for up to `count` pairs, which fill at most half of it.
  explicit PairTable(std::size_t count = 0)
      : entries_(std::bit_ceil(2 * count + 2)), shift_(64 - std::countr_zero(entries_.size())) {}

  /// Adds a pair. If the table already has the pair, its first rank is kept.
  void add(std::int32_t left, std::int32_t right, std::uint32_t rank, std::int32_t result) {
    Entry& entry = entries_[slot(key_of(left, right))];
    if (entry.key == unused) {
      entry = {key_of(left, right), rank, result};
    }
  }

  /// Null when the pair has no merge.
  [[nodiscard]] const Entry* find(std::int32_t left, std::int32_t right) const {
    const Entry& entry = entries_[slot(key_of(left, right))];
    return entry.key == unused ? nullptr : &entry;
  }

 private:
  static constexpr std::uint64_t unused = ~std::uint64_t{0};  // not a valid key, as symbols are not negative

  static std::uint64_t key_of(std::int32_t left, std::int32_t right) {
    return static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32 | static_cast<std::uint32_t>(right);
  }

  /// The index of the key, or of the free entry for it. Multiplicative hashing with linear probing.
  [[nodiscard]] std::size_t slot(std::uint64_t key) const {
    std::size_t index = static_cast<std::size_t>(key * 0x9E3779B97F4A7C15u >> shift_);
    while (entries_[index].key != key && entries_[index].key != unused) {
      index = (index + 1) & (entries_.size() - 1);
    }
    return index;
  }

  std::vector<Entry> entries_;
  int shift_;
};

}  // namespace rocmforge
