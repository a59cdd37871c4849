#pragma once

#include <cstdint>

namespace rocmforge {

/// The memory of this program, of which some allocations can be made to fail: those of all threads but the spared ones.
class FailingMemory {
 public:
  /// Counts from 1 anew, and lets `count` allocations from number `first` on fail.
  static void fail(std::int64_t first, std::int64_t count = 1);
  /// Nothing fails any more. How many allocations there were.
  static std::int64_t stop();
  /// The calling thread's are neither counted nor fail.
  static void spare_this_thread();
};

}  // namespace rocmforge
