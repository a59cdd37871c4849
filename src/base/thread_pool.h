#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

namespace rocmforge {

/// A fixed group of threads that run one job together. The calling thread takes part as thread 0.
/// Only one thread may call `run` at a time. Jobs must not throw.
class ThreadPool {
 public:
  /// `num_threads` >= 1, the caller included.
  explicit ThreadPool(int num_threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  [[nodiscard]] int num_threads() const { return static_cast<int>(workers_.size()) + 1; }

  /// Calls job(thread_index) once on every thread and returns when all are done.
  void run(const std::function<void(int)>& job);

  /// Inside a job: waits until every thread of the pool has reached this point. All threads must call it equally often.
  void barrier();

  /// Splits [0, count) into pieces of `grain` items which free threads take one after another: job(begin, end).
  void parallel_for(std::int64_t count, std::int64_t grain, const std::function<void(std::int64_t, std::int64_t)>& job);

 private:
  void work(int thread_index);

  std::vector<std::thread> workers_;
  const std::function<void(int)>* job_ = nullptr;
  std::atomic<std::uint32_t> generation_{0};
  std::atomic<std::int32_t> running_{0};
  std::atomic<std::int32_t> at_barrier_{0};
  std::atomic<std::uint32_t> barrier_phase_{0};
  std::atomic<bool> stop_{false};
};

/// Processors this process may use (its affinity mask and, in a container, its CPU quota).
int available_processors();

}  // namespace rocmforge
