#pragma once

#include <set>
#include <utility>

namespace rocmforge {

/// What a test sets and sees of the fake runtime in fake_hip_runtime.cpp. Its function fake_hip() returns the only one.
struct FakeHip {
  int calls = 0;                        ///< that can fail
  int fail_at = 0;                      ///< the number of the call that fails, 0: none
  bool reaches_peers = true;            ///< whether devices can access each other's memory
  std::set<std::pair<int, int>> peers;  ///< device and peer, where they may
  int uncached = 0;                     ///< allocations of memory that no cache holds
  std::set<void*> memory, pinned, streams, events, modules, graphs;

  [[nodiscard]] bool nothing_left() const {
    return memory.empty() && pinned.empty() && streams.empty() && events.empty() && modules.empty() && graphs.empty();
  }
};

}  // namespace rocmforge
