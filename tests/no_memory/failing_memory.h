#pragma once

#include <cstdint>

namespace rocmforge {

/// Makes allocations of this program fail, in all threads but the spared ones.
class FailingMemory {
 public:
  /// Restarts the count at 1, and makes `count` allocations fail from number `first` on.
  static void fail(std::int64_t first, std::int64_t count = 1);
  /// Ends the failures and returns the number of allocations since fail().
  static std::int64_t stop();
  /// Allocations of the calling thread are not counted and do not fail.
  static void spare_this_thread();
};

}  // namespace rocmforge
