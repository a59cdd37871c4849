#pragma once

#include <set>

namespace rocmforge {

/// What a test sets and sees of the fake runtime in fake_hip_runtime.cpp. Its function fake_hip() returns the only one.
struct FakeHip {
  int calls = 0;    ///< that can fail
  int fail_at = 0;  ///< the number of the call that fails, 0: none
  std::set<void*> memory, pinned, streams, events, modules, graphs;

  [[nodiscard]] bool nothing_left() const {
    return memory.empty() && pinned.empty() && streams.empty() && events.empty() && modules.empty() && graphs.empty();
  }
};

}  // namespace rocmforge
