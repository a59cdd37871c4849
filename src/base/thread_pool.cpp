#include "base/thread_pool.h"

#include <sched.h>

#include <algorithm>
#include <fstream>
#include <string>

#include "base/error.h"

namespace rocmforge {

namespace {

// A step launches hundreds of short jobs: sleeping between them would cost more than the jobs. Waiting longer than this is
// idling, and then the thread sleeps in the kernel. About 20 to 50 microseconds.
constexpr int spins_before_sleep = 4000;

inline void pause_briefly() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// Returns once `value` differs from `old`.
template <class T>
void wait_while_equal(const std::atomic<T>& value, T old) {
  for (int i = 0; i < spins_before_sleep; ++i) {
    if (value.load(std::memory_order_acquire) != old) {
      return;
    }
    pause_briefly();
  }
  while (value.load(std::memory_order_acquire) == old) {
    value.wait(old, std::memory_order_acquire);
  }
}

}  // namespace

ThreadPool::ThreadPool(int num_threads) {
  check(num_threads >= 1, "a thread pool needs at least one thread");
  workers_.reserve(static_cast<std::size_t>(num_threads - 1));
  for (int i = 1; i < num_threads; ++i) {
    workers_.emplace_back([this, i] { work(i); });
  }
}

ThreadPool::~ThreadPool() {
  stop_.store(true, std::memory_order_release);
  generation_.fetch_add(1, std::memory_order_release);
  generation_.notify_all();
  for (auto& worker : workers_) {
    worker.join();
  }
}

void ThreadPool::work(int thread_index) {
  std::uint32_t seen = 0;
  while (true) {
    wait_while_equal(generation_, seen);
    ++seen;  // run() waits for every worker, so no generation is ever skipped
    if (stop_.load(std::memory_order_acquire)) {
      return;
    }
    (*job_)(thread_index);
    if (running_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
      running_.notify_one();
    }
  }
}

void ThreadPool::run(const std::function<void(int)>& job) {
  if (workers_.empty()) {
    job(0);
    return;
  }
  job_ = &job;
  running_.store(static_cast<std::int32_t>(workers_.size()), std::memory_order_relaxed);
  generation_.fetch_add(1, std::memory_order_release);
  generation_.notify_all();
  job(0);
  for (auto left = running_.load(std::memory_order_acquire); left != 0; left = running_.load(std::memory_order_acquire)) {
    wait_while_equal(running_, left);
  }
}

void ThreadPool::barrier() {
  const auto phase = barrier_phase_.load(std::memory_order_acquire);
  if (at_barrier_.fetch_add(1, std::memory_order_acq_rel) + 1 == num_threads()) {
    at_barrier_.store(0, std::memory_order_relaxed);
    barrier_phase_.fetch_add(1, std::memory_order_release);
    barrier_phase_.notify_all();
    return;
  }
  wait_while_equal(barrier_phase_, phase);
}

void ThreadPool::parallel_for(std::int64_t count, std::int64_t grain,
                              const std::function<void(std::int64_t, std::int64_t)>& job) {
  check(grain > 0, "parallel_for needs a positive grain");
  if (count <= grain || workers_.empty()) {
    if (count > 0) {
      job(0, count);
    }
    return;
  }
  std::atomic<std::int64_t> next{0};
  run([&](int) {
    for (auto begin = next.fetch_add(grain); begin < count; begin = next.fetch_add(grain)) {
      job(begin, std::min(begin + grain, count));
    }
  });
}

int available_processors() {
  int count = static_cast<int>(std::thread::hardware_concurrency());
  cpu_set_t mask;
  if (sched_getaffinity(0, sizeof mask, &mask) == 0) {
    count = CPU_COUNT(&mask);
  }
  // cgroup v2: "quota period" in microseconds, or "max period".
  if (std::ifstream file("/sys/fs/cgroup/cpu.max"); file) {
    std::string quota;
    long period = 0;
    if (file >> quota >> period && quota != "max" && period > 0) {
      count = std::min(count, static_cast<int>(std::max(1L, (std::stol(quota) + period - 1) / period)));
    }
  }
  return std::max(count, 1);
}

}  // namespace rocmforge
