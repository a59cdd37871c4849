#include "service/stream.h"

#include <fmt/format.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <utility>

#include "base/error.h"
#include "service/service_error.h"

namespace rocmforge {

void PendingLogprobs::add(TokenLogprobs logprobs, std::size_t bytes) {
  entries_.push_back({std::move(logprobs), end_, end_ + bytes});
  end_ += bytes;
}

std::vector<TokenLogprobs> PendingLogprobs::take(std::size_t text_bytes, bool last) {
  std::vector<TokenLogprobs> taken;
  auto entry = entries_.begin();
  for (; entry != entries_.end() && (entry->end <= text_bytes || (last && entry->begin < text_bytes)); ++entry) {
    taken.push_back(std::move(entry->logprobs));
  }
  entries_.erase(entries_.begin(), last ? entries_.end() : entry);
  return taken;
}

void AnswerState::count(Delivery& delivery, const ServedModel& model) {
  StepOutput& output = delivery.output;
  const std::size_t shown = output.tokens.size() - (output.by_token ? 1 : 0);
  for (std::size_t i = 0; i < shown; ++i) {
    const std::int32_t token = output.tokens[i];
    tokens.push_back(token);
    ++stats.generated_tokens;
    stats.decode_seconds = delivery.decode_seconds;
    if (!output.logprobs.empty()) {
      logprobs.add(std::move(output.logprobs[i]), model.text().token_bytes(token).size());
    }
  }
  text_bytes += output.text.size();
}

AnswerMessage::AnswerMessage(const Turn& turn, std::string begin, std::uint64_t number)
    : parser_(turn.format), number_(number), content_(std::move(begin)) {
  parser_.add(turn.opening);
}

void AnswerMessage::add(const StepOutput& output, std::size_t tokens) {
  deltas_ = parser_.add(output.text);
  if (output.finish != FinishReason::none) {
    const bool is_cut = output.finish != FinishReason::stop || !output.stop.empty();
    for (AnswerDelta& delta : parser_.finish(is_cut)) {
      deltas_.push_back(std::move(delta));
    }
  }
  for (AnswerDelta& delta : deltas_) {
    switch (delta.kind) {
      case AnswerDelta::Kind::content:
        content_ += delta.text;
        break;
      case AnswerDelta::Kind::reasoning:
        reasoning_ += delta.text;
        reasoning_tokens_ = static_cast<std::int64_t>(tokens);
        break;
      case AnswerDelta::Kind::call:
        if (delta.id.empty()) {
          delta.id = tool_call_id(number_ + static_cast<std::uint64_t>(delta.index));
        }
        calls_.push_back({delta.id, delta.text, ""});
        break;
      case AnswerDelta::Kind::arguments:
        calls_.back().arguments += delta.text;
        break;
    }
  }
}

std::span<const ToolCall> AnswerMessage::whole_calls() const {
  return std::span(calls_).first(calls_.size() - (is_inside_call() ? 1 : 0));
}

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
  /// Empty where none comes within a tenth of a second.
  std::optional<Delivery> wait() {
    constexpr std::chrono::milliseconds longest{100};
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, longest, [this] { return failed_ || !deliveries_.empty(); });
    if (failed_) {
      throw std::bad_alloc();
    }
    if (deliveries_.empty()) {
      return std::nullopt;
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

/// Answers to requests. Cancels the submission when destroyed, unless it has ended.
class Submitted {
 public:
  /// Throws ServiceError (busy).
  Submitted(EngineLoop& loop, std::vector<Request> requests, std::shared_ptr<OutputListener> listener, int count = 1)
      : loop_(loop), ticket_(loop.submit(std::move(requests), count, std::move(listener), "local")) {
    if (ticket_ == 0) {
      throw ServiceError(ServiceError::Kind::busy,
                         fmt::format("the queue is full: {} answers are under way", loop.in_flight()));
    }
  }
  Submitted(const Submitted&) = delete;
  Submitted& operator=(const Submitted&) = delete;
  ~Submitted() { loop_.cancel(ticket_); }
  void cancel() noexcept { loop_.cancel(ticket_); }

 private:
  EngineLoop& loop_;
  EngineLoop::Ticket ticket_;
};

/// Passes an output on. Returns whether more is wanted.
bool tell(const AnswerEvents& events, const StepOutput& output, const AnswerMessage* message) {
  bool goes_on = output.text.empty() || !events.text || events.text(output.text);
  if (message != nullptr && events.delta) {
    for (const AnswerDelta& delta : message->deltas()) {
      goes_on = goes_on && events.delta(delta);
    }
  }
  return goes_on;
}

[[noreturn]] void throw_error(const StepOutput& output) {
  if (output.error == RequestError::no_memory) {
    throw std::bad_alloc();
  }
  throw Error(output.text);
}

}  // namespace

AnswerEnd wait_for_answer(EngineLoop& loop, Request request, const AnswerEvents& events, AnswerMessage* message) {
  const auto inbox = std::make_shared<Inbox>();
  std::vector<Request> requests;
  requests.push_back(std::move(request));
  Submitted submitted(loop, std::move(requests), inbox);
  AnswerEnd answer;
  std::size_t tokens = 0;
  bool listens = true;
  for (bool is_cancelled = false;;) {
    if (std::optional<Delivery> delivery = inbox->wait()) {
      StepOutput& output = delivery->output;
      if (output.finish == FinishReason::error) {
        throw_error(output);
      }
      answer.shifted = answer.shifted || output.shifted;
      tokens += output.tokens.size();
      if (listens) {
        answer.text += output.text;
        if (message != nullptr) {
          message->add(output, tokens);
        }
        listens = tell(events, output, message);
      }
      if (output.finish != FinishReason::none) {
        answer.last = std::move(output);
        answer.stats = answer.last.stats.value_or(RequestStats{});
        answer.last.finish = listens ? answer.last.finish : FinishReason::cancelled;
        return answer;
      }
    }
    const bool goes_on = listens && (!events.poll || events.poll());
    if (!goes_on && !std::exchange(is_cancelled, true)) {
      submitted.cancel();
    }
  }
}

bool wait_for_outputs(EngineLoop& loop, Request request, int count, const std::function<bool(Delivery&)>& take) {
  const auto inbox = std::make_shared<Inbox>();
  std::vector<Request> requests;
  requests.push_back(std::move(request));
  const Submitted submitted(loop, std::move(requests), inbox, count);
  for (int left = count; left > 0;) {
    std::optional<Delivery> delivery = inbox->wait();
    if (!delivery) {
      continue;
    }
    left -= delivery->output.finish == FinishReason::none ? 0 : 1;
    if (!take(*delivery)) {
      return false;
    }
  }
  return true;
}

std::vector<StepOutput> wait_for_ends(EngineLoop& loop, std::vector<Request> requests) {
  std::vector<StepOutput> ends(requests.size());
  const auto inbox = std::make_shared<Inbox>();
  const Submitted submitted(loop, std::move(requests), inbox);
  for (std::size_t left = ends.size(); left > 0;) {
    std::optional<Delivery> delivery = inbox->wait();
    if (!delivery) {
      continue;
    }
    if (delivery->output.finish == FinishReason::error) {
      throw_error(delivery->output);
    }
    if (delivery->output.finish != FinishReason::none) {
      ends[static_cast<std::size_t>(delivery->choice)] = std::move(delivery->output);
      --left;
    }
  }
  return ends;
}

}  // namespace rocmforge
