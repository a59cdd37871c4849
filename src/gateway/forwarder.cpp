#include "gateway/forwarder.h"

#include <fmt/format.h>

#include <exception>
#include <system_error>
#include <utility>

#include "gateway/passage.h"
#include "server/router.h"

namespace rocmforge {

Forwarder::Forwarder(ModelPool& pool, std::int64_t most_requests, std::int32_t client_share)
    : pool_(pool), places_(std::make_shared<FairShares>(most_requests, client_share)) {}

Forwarder::~Forwarder() { stop(); }

void Forwarder::stop() {
  std::vector<std::jthread> threads;
  std::set<std::shared_ptr<Passage>> passages;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    std::swap(threads, threads_);
    passages = passages_;
  }
  changed_.notify_all();
  for (const auto& passage : passages) {
    passage->interrupt(Interruption::shutdown);
  }
  threads.clear();  // waits for them
}

void Forwarder::forward(const std::shared_ptr<HttpExchange>& exchange, ServerState& state) { post(exchange, state, false); }
void Forwarder::ask_loaded(const std::shared_ptr<HttpExchange>& exchange, ServerState& state) {
  post(exchange, state, true);
}

void Forwarder::post(const std::shared_ptr<HttpExchange>& exchange, ServerState& state, bool asks_loaded) {
  auto claim = std::make_shared<Claim>(places_, exchange->request.account);
  if (!claim->grow(1)) {
    ApiError full(429, fmt::format("the queue is full: {} requests wait or are answered", places_->used()));
    full.retry_after_seconds = 1;
    throw full;
  }
  auto passage = std::make_shared<Passage>(pool_, exchange, state, asks_loaded);
  const std::lock_guard lock(mutex_);
  if (stopping_) {
    throw shutting_down();
  }
  jobs_.emplace_back([this, claim = std::move(claim), passage, exchange, &state] {
    run(*passage, exchange, state);
    const std::lock_guard held(mutex_);
    passages_.erase(passage);
  });
  passages_.insert(passage);
  if (jobs_.size() > idle_) {
    try {
      threads_.emplace_back([this] { work(); });
    } catch (const std::system_error&) {  // the system has no more threads: it waits for one of those there are
      if (threads_.empty()) {
        jobs_.pop_back();
        passages_.erase(passage);
        throw ApiError(503, "no thread can be started for this request");
      }
    }
  }
  changed_.notify_one();
}

/// Never throws: where even the refusal fails, the reply is dropped.
void Forwarder::run(Passage& passage, const std::shared_ptr<HttpExchange>& exchange, ServerState& state) noexcept {
  try {
    if (const std::optional<ApiError> problem = Router::error_of([&passage] { passage.run(); })) {
      Router::refuse(*exchange->request.route, *exchange, state, *problem);
    }
  } catch (const std::exception&) {  // no memory even for the reason
    exchange->drop();
  }
}

void Forwarder::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    ++idle_;
    changed_.wait(lock, [this] { return stopping_ || !jobs_.empty(); });
    --idle_;
    if (jobs_.empty()) {
      return;
    }
    Job job = std::move(jobs_.front());
    jobs_.pop_front();
    lock.unlock();
    job();
    job = nullptr;  // what it holds ends without the lock
    lock.lock();
  }
}

}  // namespace rocmforge
