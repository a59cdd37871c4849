#pragma once

#include <cstdint>

namespace rocmforge::app {

/// The most memory this process has held so far (VmHWM, mapped file pages included); 0 where the system does not tell.
std::uint64_t peak_memory_bytes();

/// Bytes per second that `threads` threads read together from memory, each its own part of a buffer larger than the caches:
/// the best of several passes. The ceiling of any decode that reads its weights from memory.
double read_bandwidth(int threads);

}  // namespace rocmforge::app
