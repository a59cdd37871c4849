#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "server/http_exchange.h"
#include "server/server.h"

namespace rocmforge {

/// Downloads for clients: one at a time, on a thread of its own.
class ModelPulls {
 public:
  ModelPulls() = default;
  ~ModelPulls() { stop(); }
  ModelPulls(const ModelPulls&) = delete;
  ModelPulls& operator=(const ModelPulls&) = delete;

  /// Answers `exchange` with lines of JSON during the download, or once at its end. Throws ApiError(503) during another
  /// download, or when no thread can be started.
  void start(const std::shared_ptr<HttpExchange>& exchange, const PullFunction& pull, const PullRequest& request,
             bool streams);
  /// Cancels the running download, and starts no other.
  void interrupt() { stopping_ = true; }
  /// The same, and waits for its end.
  void stop();

 private:
  /// Why it failed; "" if it has not.
  std::string download(HttpExchange& exchange, const PullFunction& pull, const PullRequest& request, bool streams);
  void run(HttpExchange& exchange, const PullFunction& pull, const PullRequest& request, bool streams) noexcept;

  std::atomic<bool> stopping_{false};
  std::mutex mutex_;  // guards the members below
  bool busy_ = false;
  std::jthread thread_;
};

/// POST /api/pull: success for the served model. Others are downloaded if ServerOptions::pull is not empty.
void serve_ollama_pull(const std::shared_ptr<HttpExchange>& exchange, const ServerOptions& options, ModelPulls& pulls);

}  // namespace rocmforge
