#pragma once

#include <cstddef>
#include <span>

#include "base/thread_pool.h"

namespace rocmforge::bench {

/// Bytes per second at which all threads of the pool together read `memory` from front to back, at the fastest stretch of a
/// few megabytes. `memory` should be several times the last-level cache.
double read_bandwidth(std::span<const std::byte> memory, ThreadPool& pool);

/// 8-bit multiply-adds per second of all threads in a loop of the widest integer dot product the processor has, on
/// registers. 0 where the processor has none that this file knows.
double int8_peak(ThreadPool& pool);

/// f32 multiply-adds per second, likewise.
double f32_peak(ThreadPool& pool);

}  // namespace rocmforge::bench
