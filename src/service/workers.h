#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace rocmforge {

/// Why the reading of a request is cancelled.
enum class Interruption { none, client_left, time, shutdown };

/// The reading of one request.
struct ReadingTask {
  std::string client{};  ///< the client it counts for
  bool is_long = false;  ///< it takes long, or may take long
  std::optional<std::chrono::steady_clock::time_point> deadline{};
  std::function<void()> run;  ///< throws nothing
  /// Makes run() end soon, or at once if it has not begun. Any thread may call it. Throws nothing and does not wait.
  std::function<void(Interruption)> interrupt;
};

/// The threads that read requests and encode prompts. Some are for short tasks, the others for long ones. One client may use
/// at most half of each kind, so that neither long requests nor one client's many requests delay the others. Clients take
/// turns. On a busy processor, threads with long tasks have a lower priority than all other threads of the program.
class Workers {
 public:
  static constexpr std::size_t short_threads = 4;
  static constexpr std::size_t long_threads = 4;
  static constexpr std::size_t most_of_client = 2;  ///< of either kind

  Workers();
  ~Workers() { stop(); }
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  /// Throws std::bad_alloc; then the task was not added. During stop() only a task that runs may add one, which is
  /// interrupted.
  void post(ReadingTask task);
  /// Interrupts all tasks and waits until each has run. After it nothing may be posted.
  void stop();
  /// Interrupts all tasks, including those that have not begun.
  void interrupt_all(Interruption reason);

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::size_t longest_client = 128;  ///< an address or the number of a key is shorter
  /// One client's tasks of a kind; kept while it has some.
  struct Queue {
    std::deque<std::shared_ptr<ReadingTask>> waiting;
    std::size_t running = 0;
  };
  struct Kind {
    Kind() { last_client.reserve(longest_client); }  // so that taking a task allocates nothing

    std::map<std::string, Queue> queues;
    std::string last_client;  ///< the client served last
  };

  void work(Kind& kind);
  void keep_time();
  /// The next task that may begin, by turns; null when none may. Call with the mutex held.
  static std::shared_ptr<ReadingTask> next(Kind& kind);
  void finished(Kind& kind, const std::shared_ptr<ReadingTask>& task);

  std::mutex mutex_;  // guards the members below
  std::condition_variable changed_;
  Kind short_, long_;
  std::set<std::shared_ptr<ReadingTask>> unfinished_;
  std::set<std::pair<Clock::time_point, std::shared_ptr<ReadingTask>>> deadlines_;
  bool stopping_ = false;

  std::vector<std::jthread> threads_;
  std::jthread timekeeper_;
};

}  // namespace rocmforge
