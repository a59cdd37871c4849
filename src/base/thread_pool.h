#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <thread>
#include <vector>

namespace rocmforge {

/// A fixed group of threads that work on one job together. The calling thread takes part as thread 0. Only one thread may
/// post jobs at a time. If a job throws on any thread, the call that posted it throws the same exception after all threads
/// have finished. If it throws on several threads, the first exception is kept.
class ThreadPool {
 public:
  /// `num_threads` >= 1 includes the calling thread. Throws Error when the system can't start that many.
  explicit ThreadPool(int num_threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  [[nodiscard]] int num_threads() const { return static_cast<int>(workers_.size()) + 1; }

  /// Calls job(thread_index) once on every thread and returns when all have finished. For jobs that need all threads at once
  /// (barriers). The other calls do not wait for threads without work.
  void run(const std::function<void(int)>& job);

  /// Inside a job of `run`: waits until every thread of the pool has called it. All threads must call it equally often, so
  /// such a job must not throw.
  void barrier();

  /// Calls job(thread_index) on the calling thread, and on each worker that starts before the calling thread's own call has
  /// returned. For jobs whose threads take pieces of the work until none is left. Returns when all threads that took part
  /// have finished.
  void run_with_free_threads(const std::function<void(int)>& job);

  /// Splits [0, count) into pieces of `grain` items, which free threads take one after another: job(begin, end). A worker
  /// that starts too late takes no part, and the call does not wait for it. `grain` must be positive.
  void parallel_for(std::int64_t count, std::int64_t grain, const std::function<void(std::int64_t, std::int64_t)>& job);

 private:
  void work(int thread_index);
  void attempt(const std::function<void(int)>& job, int thread_index) noexcept;
  /// Throws the exception of a finished job, if there is one.
  void rethrow();
  bool enter(std::uint32_t generation);
  void post(const std::function<void(int)>& job);
  void close();
  void stop();

  std::vector<std::thread> workers_;
  const std::function<void(int)>* job_ = nullptr;
  std::atomic<std::uint32_t> generation_{0};  ///< counts jobs; workers wait for it to change
  std::atomic<std::uint32_t> gate_{0};        ///< generation, whether workers may still enter, how many are inside
  std::atomic<std::int32_t> finished_{0};     ///< workers that have finished the current job
  std::atomic<std::int32_t> at_barrier_{0};
  std::atomic<std::uint32_t> barrier_phase_{0};
  std::atomic<bool> stop_{false};
  std::atomic<bool> failed_{false};  ///< a thread has set failure_
  std::exception_ptr failure_;
};

/// The number of processors that this process may use: its affinity mask and, in a container, its CPU quota.
int available_processors();

}  // namespace rocmforge
