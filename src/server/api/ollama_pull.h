#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "server/exchange.h"
#include "server/server.h"

namespace rocmforge {

/// The downloads that clients ask for: one at a time, on a thread of its own.
class ModelPulls {
 public:
  ModelPulls() = default;
  ~ModelPulls() { stop(); }
  ModelPulls(const ModelPulls&) = delete;
  ModelPulls& operator=(const ModelPulls&) = delete;

  /// Answers `exchange` with lines of JSON as the download goes on, or once at its end. Throws ApiError(503) while another
  /// one is under way, or when there is no thread for it.
  void start(const std::shared_ptr<Exchange>& exchange, const PullFunction& pull, const std::string& name, bool streams);
  /// The one that is under way ends soon, and no other begins.
  void interrupt() { stopping_ = true; }
  /// The same, and waits for its end.
  void stop();

 private:
  /// Why it failed; "" when it has not.
  std::string download(Exchange& exchange, const PullFunction& pull, const std::string& name, bool streams);
  void run(Exchange& exchange, const PullFunction& pull, const std::string& name, bool streams) noexcept;

  std::atomic<bool> stopping_{false};
  std::mutex mutex_;  // guards what follows
  bool busy_ = false;
  std::jthread thread_;
};

/// POST /api/pull: the model that is served is there; others are downloaded where `pull` is not empty.
void serve_ollama_pull(const std::shared_ptr<Exchange>& exchange, const std::string& served, const PullFunction& pull,
                       ModelPulls& pulls);

}  // namespace rocmforge
