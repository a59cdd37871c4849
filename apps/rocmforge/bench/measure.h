#pragma once

#include <cstdint>

namespace rocmforge::app {

/// The peak memory of this process (VmHWM, mapped file pages included); 0 where the system does not report it.
std::uint64_t peak_memory_bytes();

/// Bytes per second that `threads` threads together read from memory, each its own part of a buffer larger than the caches:
/// the best of several passes. It bounds the speed of decoding, which reads the weights from memory.
double read_bandwidth(int threads);

}  // namespace rocmforge::app
