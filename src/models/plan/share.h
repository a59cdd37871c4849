#pragma once

#include <cstdint>
#include <string_view>

#include "models/parts/selection.h"

namespace rocmforge {

/// Which of several ranks a plan is for, and what of a layer this rank computes. Without others it has everything.
struct Share {
  std::int32_t rank = 0;
  std::int32_t ranks = 1;

  [[nodiscard]] bool whole() const { return ranks == 1; }
  /// An equal number of `count` heads, groups or channels. Throws Error if there is none: "14 heads can't be shared by 4
  /// ranks".
  [[nodiscard]] Range equal(std::int64_t count, std::string_view what) const;
  /// The same of what may be fewer than the ranks: then several ranks have one and the same.
  [[nodiscard]] Range repeated(std::int64_t count, std::string_view what) const;
  /// Of `count` features whole units of `unit`, as nearly equal as possible. Throws Error if there is less than a unit for
  /// each rank.
  [[nodiscard]] Range units(std::int64_t count, std::int64_t unit, std::string_view what) const;

  friend bool operator==(const Share&, const Share&) = default;
};

}  // namespace rocmforge
