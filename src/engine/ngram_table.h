#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace rocmforge {

/// Which token last followed a run of tokens, in all sequences that were added: one table of fixed size, in which newer runs
/// replace older ones. What it says is a guess: runs are compared by 64 bits of hash and place.
class NgramTable {
 public:
  /// The longer run is looked for first.
  static constexpr std::size_t long_factor = 2;

  /// For runs of `run_tokens` and of long_factor times as many. Takes 8 bytes * 2^`size_bits`.
  explicit NgramTable(std::size_t run_tokens, int size_bits = 20);

  [[nodiscard]] std::size_t longest_run() const { return lengths_[0]; }
  /// Adds the tokens of a sequence from index `first` on, each as what follows those before it. Sequences find only what
  /// was added with the same `salt`.
  void add(std::span<const std::int32_t> tokens, std::size_t first, std::uint64_t salt = 0);
  /// The token that followed the last tokens of `tokens`, -1 where none is known.
  [[nodiscard]] std::int32_t next(std::span<const std::int32_t> tokens, std::uint64_t salt = 0) const;

 private:
  struct Entry {
    std::uint32_t tag = 0;
    std::int32_t token = -1;
  };
  static std::uint64_t hash(std::span<const std::int32_t> run, std::uint64_t salt);
  [[nodiscard]] std::size_t place(std::uint64_t hash) const {
    return static_cast<std::size_t>(hash) & (entries_.size() - 1);
  }

  std::size_t lengths_[2];  ///< of runs, the longer one first
  std::vector<Entry> entries_;
};

}  // namespace rocmforge
