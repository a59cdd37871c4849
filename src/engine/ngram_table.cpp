#include "engine/ngram_table.h"

#include <algorithm>

#include "base/error.h"

namespace rocmforge {

NgramTable::NgramTable(std::size_t run_tokens, int size_bits)
    : lengths_{long_factor * run_tokens, run_tokens}, entries_(std::size_t{1} << size_bits) {
  check(run_tokens > 0, "a run has tokens");
}

void NgramTable::add(std::span<const std::int32_t> tokens, std::size_t first, std::uint64_t salt) {
  for (std::size_t i = first; i < tokens.size(); ++i) {
    for (const std::size_t length : lengths_) {
      if (i >= length) {
        const std::uint64_t key = hash(tokens.subspan(i - length, length), salt);
        entries_[place(key)] = {static_cast<std::uint32_t>(key >> 32), tokens[i]};
      }
    }
  }
}

std::int32_t NgramTable::next(std::span<const std::int32_t> tokens, std::uint64_t salt) const {
  for (const std::size_t length : lengths_) {
    if (tokens.size() >= length) {
      const std::uint64_t key = hash(tokens.last(length), salt);
      const Entry& entry = entries_[place(key)];
      if (entry.token >= 0 && entry.tag == static_cast<std::uint32_t>(key >> 32)) {
        return entry.token;
      }
    }
  }
  return -1;
}

// The length is part of the key, so that a run and the end of a longer one differ.
std::uint64_t NgramTable::hash(std::span<const std::int32_t> run, std::uint64_t salt) {
  std::uint64_t key = salt + run.size() * 0x9e3779b97f4a7c15u;
  for (const std::int32_t token : run) {
    key = (key ^ static_cast<std::uint32_t>(token)) * 0xff51afd7ed558ccdu;
    key ^= key >> 32;
  }
  return key;
}

}  // namespace rocmforge
