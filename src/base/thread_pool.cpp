#include "base/thread_pool.h"

#include <sched.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <system_error>
#include <utility>

#include "base/error.h"

namespace rocmforge {

namespace {

// A step runs hundreds of short jobs, and to sleep between them would take longer than the jobs. A thread that has waited
// longer than this has nothing to do and sleeps in the kernel. About 20 to 50 microseconds.
constexpr int spins_before_sleep = 4000;

// The fields of the gate: the number of workers inside, whether more may enter, and the low bits of the job's generation.
constexpr std::uint32_t inside_mask = 0x7ff;
constexpr std::uint32_t open_bit = 0x800;
constexpr int generation_shift = 12;

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
  check(num_threads >= 1 && num_threads <= static_cast<int>(inside_mask), "a thread pool has 1 to 2047 threads");
  workers_.reserve(static_cast<std::size_t>(num_threads - 1));
  try {
    for (int i = 1; i < num_threads; ++i) {
      workers_.emplace_back([this, i] { work(i); });
    }
  } catch (const std::system_error& error) {
    const auto started = workers_.size() + 1;
    stop();
    throw Error("cannot start " + std::to_string(num_threads) + " threads, only " + std::to_string(started) + ": " +
                error.what());
  }
}

ThreadPool::~ThreadPool() { stop(); }

void ThreadPool::stop() {
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
    seen = generation_.load(std::memory_order_acquire);
    if (stop_.load(std::memory_order_acquire)) {
      return;
    }
    if (!enter(seen)) {
      continue;
    }
    attempt(*job_, thread_index);
    finished_.fetch_add(1, std::memory_order_release);
    finished_.notify_one();
    if (const auto before = gate_.fetch_sub(1, std::memory_order_acq_rel); (before & (open_bit | inside_mask)) == 1) {
      gate_.notify_one();
    }
  }
}

void ThreadPool::attempt(const std::function<void(int)>& job, int thread_index) noexcept {
  try {
    job(thread_index);
  } catch (...) {
    if (!failed_.exchange(true, std::memory_order_acq_rel)) {
      failure_ = std::current_exception();
    }
  }
}

void ThreadPool::rethrow() {
  if (failed_.load(std::memory_order_acquire)) [[unlikely]] {
    failed_.store(false, std::memory_order_relaxed);
    std::rethrow_exception(std::exchange(failure_, nullptr));
  }
}

bool ThreadPool::enter(std::uint32_t generation) {
  auto gate = gate_.load(std::memory_order_acquire);
  while ((gate & open_bit) != 0 && gate >> generation_shift == (generation << generation_shift) >> generation_shift) {
    if (gate_.compare_exchange_weak(gate, gate + 1, std::memory_order_acq_rel, std::memory_order_acquire)) {
      return true;
    }
  }
  return false;
}

void ThreadPool::post(const std::function<void(int)>& job) {
  job_ = &job;
  finished_.store(0, std::memory_order_relaxed);
  const auto generation = generation_.load(std::memory_order_relaxed) + 1;
  gate_.store(generation << generation_shift | open_bit, std::memory_order_release);
  generation_.store(generation, std::memory_order_release);
  generation_.notify_all();
}

void ThreadPool::close() {
  auto gate = gate_.fetch_and(~open_bit, std::memory_order_acq_rel) & ~open_bit;
  while ((gate & inside_mask) != 0) {
    wait_while_equal(gate_, gate);
    gate = gate_.load(std::memory_order_acquire);
  }
}

void ThreadPool::run(const std::function<void(int)>& job) {
  if (workers_.empty()) {
    job(0);
    return;
  }
  post(job);
  attempt(job, 0);
  const auto all = static_cast<std::int32_t>(workers_.size());
  for (auto done = finished_.load(std::memory_order_acquire); done != all;
       done = finished_.load(std::memory_order_acquire)) {
    wait_while_equal(finished_, done);
  }
  close();
  rethrow();
}

void ThreadPool::run_with_free_threads(const std::function<void(int)>& job) {
  if (workers_.empty()) {
    job(0);
    return;
  }
  post(job);
  attempt(job, 0);
  close();
  rethrow();
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
  const auto take_pieces = [&](int) {
    for (auto begin = next.fetch_add(grain, std::memory_order_relaxed); begin < count;
         begin = next.fetch_add(grain, std::memory_order_relaxed)) {
      job(begin, std::min(begin + grain, count));
    }
  };
  run_with_free_threads(take_pieces);
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
