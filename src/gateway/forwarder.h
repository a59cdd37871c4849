#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "gateway/model_pool.h"
#include "server/routes.h"
#include "service/fair_shares.h"

namespace rocmforge {

/// Passes requests on to the servers of models, and their answers back as they come. Each request that is under way has a
/// thread, which mostly waits; threads are kept for later requests.
class Forwarder {
 public:
  /// At most `most_requests` wait or are answered; `client_share`: percent that one client may have beside others.
  Forwarder(ModelPool& pool, std::int64_t most_requests, std::int32_t client_share);
  /// stop()
  ~Forwarder();
  Forwarder(const Forwarder&) = delete;
  Forwarder& operator=(const Forwarder&) = delete;

  /// Passes a request on to the model that it names, or to the only one there is. One that only asks (GET) loads no model,
  /// and does not keep it loaded. Returns at once. Throws ApiError: 429 where too many wait, 503 during stop().
  void forward(const std::shared_ptr<HttpExchange>& exchange, ServerState& state);
  /// Passes a request on to one loaded model after another, until one answers with another status than 404.
  void ask_loaded(const std::shared_ptr<HttpExchange>& exchange, ServerState& state);
  /// Interrupts all requests, and waits for their ends.
  void stop();

 private:
  class Passage;
  using Job = std::function<void()>;

  void post(const std::shared_ptr<HttpExchange>& exchange, ServerState& state, bool asks_loaded);
  static void run(Passage& passage, const std::shared_ptr<HttpExchange>& exchange, ServerState& state) noexcept;
  void work();

  ModelPool& pool_;
  std::shared_ptr<FairShares> places_;

  std::mutex mutex_;  // guards the members below
  std::condition_variable changed_;
  std::deque<Job> jobs_;
  std::set<std::shared_ptr<Passage>> passages_;
  std::size_t idle_ = 0;
  bool stopping_ = false;
  std::vector<std::jthread> threads_;
};

}  // namespace rocmforge
