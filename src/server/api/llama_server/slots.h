#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "server/api/generation.h"
#include "server/http_exchange.h"

namespace rocmforge {

/// Saves and restores slots, one after another, on a thread of its own: it reads and writes files, and waits for the engine
/// between their pieces.
class SlotWork {
 public:
  static constexpr std::size_t most_waiting = 16;

  SlotWork() = default;
  ~SlotWork() { stop(); }
  SlotWork(const SlotWork&) = delete;
  SlotWork& operator=(const SlotWork&) = delete;

  /// `work` throws nothing. Throws ApiError(503) where too much waits, no thread can be started, or after interrupt().
  void add(std::function<void()> work);
  /// What is under way ends with its next piece, and nothing more is taken.
  void interrupt();
  [[nodiscard]] bool is_interrupted() const { return stopping_; }
  /// The same, and waits for the end of what was taken.
  void stop();

 private:
  void run();

  std::atomic<bool> stopping_{false};
  std::mutex mutex_;  // guards the members below
  std::condition_variable changed_;
  std::deque<std::function<void()>> waiting_;
  std::jthread thread_;
};

/// POST /slots/{id}?action=save|restore|erase: keeps the computed prefix of the conversation that a slot names in a file of
/// `folder`, brings it back, or forgets it. "": the server was started without a folder.
void serve_slot_action(const std::shared_ptr<HttpExchange>& exchange, const Backend& backend, const std::string& folder,
                       SlotWork& work);

}  // namespace rocmforge
