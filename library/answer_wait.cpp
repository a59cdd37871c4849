#include "answer_wait.h"

#include <fmt/format.h>

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

namespace rocmforge {
namespace {

/// The deliveries of one answer, from the loop's delivery thread to the waiting thread.
class Inbox final : public OutputListener {
 public:
  void on_output(Delivery delivery) override {
    const std::lock_guard lock(mutex_);
    deliveries_.push_back(std::move(delivery));
    changed_.notify_one();
  }
  void on_failure() noexcept override {
    const std::lock_guard lock(mutex_);
    failed_ = true;
    changed_.notify_one();
  }
  Delivery wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return failed_ || !deliveries_.empty(); });
    if (failed_) {
      throw std::bad_alloc();
    }
    Delivery delivery = std::move(deliveries_.front());
    deliveries_.pop_front();
    return delivery;
  }

 private:
  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::deque<Delivery> deliveries_;
  bool failed_ = false;
};

/// Cancels the submission when destroyed, unless the answer has ended.
class Submitted {
 public:
  Submitted(EngineLoop& loop, EngineLoop::Ticket ticket) : loop_(loop), ticket_(ticket) {}
  Submitted(const Submitted&) = delete;
  Submitted& operator=(const Submitted&) = delete;
  ~Submitted() { loop_.cancel(ticket_); }
  void cancel() noexcept { loop_.cancel(ticket_); }

 private:
  EngineLoop& loop_;
  EngineLoop::Ticket ticket_;
};

}  // namespace

WaitedAnswer wait_for_answer(EngineLoop& loop, Request request, const std::function<bool(std::string_view)>& take) {
  const auto inbox = std::make_shared<Inbox>();
  std::vector<Request> requests;
  requests.push_back(std::move(request));
  const EngineLoop::Ticket ticket = loop.submit(std::move(requests), 1, inbox, "local");
  if (ticket == 0) {
    throw BusyError(fmt::format("the queue is full: {} answers are under way", loop.in_flight()));
  }
  Submitted submitted(loop, ticket);
  WaitedAnswer answer;
  for (bool goes_on = true;;) {
    Delivery delivery = inbox->wait();
    StepOutput& output = delivery.output;
    if (output.finish == FinishReason::error) {
      if (output.error == RequestError::no_memory) {
        throw std::bad_alloc();
      }
      throw Error(output.text);
    }
    answer.shifted = answer.shifted || output.shifted;
    if (goes_on && !output.text.empty()) {
      answer.text += output.text;
      goes_on = !take || take(output.text);
      if (!goes_on) {
        submitted.cancel();
      }
    }
    if (output.finish != FinishReason::none) {
      answer.last = std::move(output);
      answer.stats = delivery.stats.value_or(RequestStats{});
      answer.last.finish = goes_on ? answer.last.finish : FinishReason::cancelled;
      return answer;
    }
  }
}

}  // namespace rocmforge
