#include "bench/measure.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <fstream>
#include <memory>
#include <string>

#include "base/error.h"
#include "base/thread_pool.h"
#include "device/device_info.h"

namespace rocmforge::app {

std::uint64_t peak_memory_bytes() {
  std::ifstream status("/proc/self/status");
  std::string word;
  while (status >> word) {
    if (word == "VmHWM:") {
      std::uint64_t kibibytes = 0;
      status >> kibibytes;
      return kibibytes * 1024;
    }
  }
  return 0;
}

namespace {

/// Eight independent sums, so that the latency of the additions does not limit the loads.
std::uint64_t sum(const std::uint64_t* values, std::size_t count) {
  std::uint64_t sums[8] = {};
  for (std::size_t i = 0; i + 8 <= count; i += 8) {
    for (std::size_t lane = 0; lane < 8; ++lane) {
      sums[lane] += values[i + lane];
    }
  }
  std::uint64_t total = 0;
  for (const std::uint64_t part : sums) {
    total += part;
  }
  return total;
}

}  // namespace

double read_bandwidth(int threads) {
  constexpr std::int64_t largest = std::int64_t{1} << 30;
  constexpr std::int64_t smallest = std::int64_t{64} << 20;
  constexpr int passes = 6;
  const std::int64_t bytes = std::clamp(cpu_device_info().memory_bytes / 16, smallest, largest);
  const auto count = static_cast<std::size_t>(bytes) / sizeof(std::uint64_t) / static_cast<std::size_t>(threads) / 8 * 8;
  const std::unique_ptr<std::uint64_t[]> buffer(new std::uint64_t[count * static_cast<std::size_t>(threads)]);
  ThreadPool pool(threads);
  std::atomic<std::uint64_t> total{0};
  double best = 0.0;
  for (int pass = 0; pass <= passes; ++pass) {
    const auto start = std::chrono::steady_clock::now();
    pool.run([&](int thread) {
      std::uint64_t* part = buffer.get() + static_cast<std::size_t>(thread) * count;
      if (pass == 0) {  // first touch by the thread that reads the page (NUMA)
        std::fill_n(part, count, std::uint64_t{1});
      }
      total += sum(part, count);
    });
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (pass > 0) {
      best = std::max(best, static_cast<double>(count) * static_cast<double>(threads) * sizeof(std::uint64_t) / seconds);
    }
  }
  check(total == count * static_cast<std::size_t>(threads) * (passes + 1), "every word was read in every pass");
  return best;
}

}  // namespace rocmforge::app
