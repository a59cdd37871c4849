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

/// Why the reading of a request is given up.
enum class Interruption { none, client_left, time, shutdown };

/// The reading of one request.
struct ReadingTask {
  std::string client{};  ///< whom it counts for
  bool is_long = false;  ///< it takes long, or may
  std::optional<std::chrono::steady_clock::time_point> deadline{};
  std::function<void()> run;  ///< throws nothing
  /// Makes run() end soon, or at once when it begins later; from any thread. Throws nothing and waits for nothing.
  std::function<void(Interruption)> interrupt;
};

/// The threads that read requests and encode prompts. Some are for short tasks, the others for long ones, and half of each
/// for others than any one client: neither many long requests nor one client's many can hold up the rest. Clients take
/// turns. Where processors are busy, long tasks make way for all other threads of the program.
class Workers {
 public:
  static constexpr std::size_t short_threads = 4;
  static constexpr std::size_t long_threads = 4;
  static constexpr std::size_t most_of_client = 2;  ///< of either kind

  Workers();
  /// Interrupts what there is and waits until all of it has run.
  ~Workers();
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  /// Throws std::bad_alloc, and has taken nothing then.
  void post(ReadingTask task);
  /// Interrupts all tasks, also those that have not begun.
  void interrupt_all(Interruption reason);

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::size_t longest_client = 128;  ///< an address or the number of a key is shorter
  /// What one client has of a kind; kept while it has something.
  struct Queue {
    std::deque<std::shared_ptr<ReadingTask>> waiting;
    std::size_t running = 0;
  };
  struct Kind {
    Kind() { last_client.reserve(longest_client); }  // who takes a task takes no memory

    std::map<std::string, Queue> queues;
    std::string last_client;  ///< whose turn it was
  };

  void work(Kind& kind);
  void keep_time();
  /// The next one that may begin, by turns; null when none may. Holds the mutex.
  static std::shared_ptr<ReadingTask> next(Kind& kind);
  void finished(Kind& kind, const std::shared_ptr<ReadingTask>& task);

  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  Kind short_, long_;
  std::set<std::shared_ptr<ReadingTask>> unfinished_;
  std::set<std::pair<Clock::time_point, std::shared_ptr<ReadingTask>>> deadlines_;
  bool stopping_ = false;

  std::vector<std::jthread> threads_;
  std::jthread timekeeper_;
};

}  // namespace rocmforge
