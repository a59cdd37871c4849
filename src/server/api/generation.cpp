#include "server/api/generation.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace rocmforge {
namespace {

constexpr std::size_t most_answers = 2048;  // of one request
constexpr std::string_view fingerprint = "b-rocmforge";

double per_second(double count, double seconds) { return seconds > 0.0 ? count / seconds : 0.0; }

}  // namespace

void ActiveGenerations::add(const std::string& id, std::weak_ptr<Generation> generation) {
  const std::lock_guard lock(mutex_);
  generations_[id] = std::move(generation);
}

void ActiveGenerations::remove(const std::string& id) {
  const std::lock_guard lock(mutex_);
  generations_.erase(id);
}

bool ActiveGenerations::cancel(const std::string& id) {
  std::shared_ptr<Generation> generation;
  {
    const std::lock_guard lock(mutex_);
    const auto found = generations_.find(id);
    generation = found == generations_.end() ? nullptr : found->second.lock();
  }
  if (generation != nullptr) {
    generation->cancel();
  }
  return generation != nullptr;
}

Generation::Generation(std::shared_ptr<Exchange> exchange, const Backend& backend, StreamOptions options,
                       std::string_view prefix)
    : exchange_(std::move(exchange)),
      backend_(backend),
      options_(options),
      id_(fmt::format("{}{}", prefix, exchange_->id())),
      created_(
          std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count()) {}

Generation::~Generation() { backend_.active.remove(id_); }

void Generation::start(std::vector<Request> requests, int count) {
  const std::size_t answers = requests.size() * static_cast<std::size_t>(count);
  const std::size_t most = std::min(most_answers, static_cast<std::size_t>(backend_.loop.capacity()));
  if (answers > most) {
    throw ApiError(400, fmt::format("the request asks for {} answers, the server takes at most {} at once", answers, most));
  }
  count_ = count;
  choices_.resize(answers);
  for (Request& request : requests) {
    prompt_sizes_.push_back(request.prompt.size());
    if (backend_.request_time) {
      request.deadline = std::chrono::steady_clock::now() + *backend_.request_time;
    }
  }
  backend_.active.add(id_, weak_from_this());
  const EngineLoop::Ticket ticket = backend_.loop.submit(std::move(requests), count, shared_from_this());
  if (ticket == 0) {
    ApiError error(429, fmt::format("the queue is full: {} answers are under way", backend_.loop.in_flight()));
    error.retry_after_seconds = 1;
    throw error;
  }
  bool cancel_now = false;
  {
    const std::lock_guard lock(mutex_);
    ticket_ = ticket;
    cancel_now = cancelled_;
  }
  if (cancel_now) {
    backend_.loop.cancel(ticket);
  }
  exchange_->on_drop([weak = weak_from_this()] {
    if (const auto self = weak.lock()) {
      self->exchange_->note("client_left", true);
      self->cancel();
    }
  });
}

void Generation::cancel() {
  const std::lock_guard lock(mutex_);
  if (!std::exchange(cancelled_, true) && ticket_ != 0) {
    backend_.loop.cancel(ticket_);
  }
}

void Generation::on_output(Delivery delivery) {
  if (ended_) {
    return;
  }
  StepOutput& output = delivery.output;
  if (output.finish == FinishReason::error || output.finish == FinishReason::timeout) {
    return fail(error_of(output));
  }
  Choice& into = choice(delivery.choice);
  if (output.token >= 0 && !(output.finish == FinishReason::stop && model().is_end(output.token))) {
    into.tokens.push_back(output.token);
    ++into.stats.generated_tokens;
    into.stats.decode_seconds = delivery.decode_seconds;
    if (!output.logprobs.empty()) {
      into.logprobs.add(std::move(output.logprobs.front()), model().text().token_bytes(output.token).size());
    }
  }
  into.text_bytes += output.text.size();
  take(delivery.choice, output);
  into.finish = output.finish;
  if (delivery.stats) {
    into.stats = *delivery.stats;
    ++finished_;
  }
  if (!options_.stream || exchange_->log().shows_texts()) {
    into.text += output.text;
  }
  if (options_.stream) {
    stream(delivery.choice, output);
  }
  if (finished_ == choices_.size()) {
    finish();
  }
}

void Generation::write(const Json& event) { events_ += fmt::format("data: {}\n\n", to_text(event)); }

void Generation::stream(int index, const StepOutput& output) {
  for (Json& event : events(index, output)) {
    if (options_.timings_per_token && !event.contains("timings")) {
      const RequestStats& stats = choice(index).stats;
      event["timings"] = output.finish == FinishReason::none ? decode_timings(stats) : timings(stats);
    }
    write(event);
  }
  if (events_.empty()) {
    return;
  }
  if (!std::exchange(begun_, true)) {
    exchange_->begin(
        {.content_type = "text/event-stream", .headers = {{"Cache-Control", "no-cache"}, {"X-Accel-Buffering", "no"}}});
  }
  if (!exchange_->write(std::exchange(events_, {}))) {
    cancel();
  }
}

void Generation::finish() {
  ended_ = true;
  backend_.active.remove(id_);
  add_notes();
  if (!options_.stream) {
    return exchange_->send_json(whole());
  }
  for (const Json& event : last_events()) {
    write(event);
  }
  if (says_done()) {
    events_ += "data: [DONE]\n\n";
  }
  exchange_->write(std::exchange(events_, {}));
  exchange_->end();
}

void Generation::fail(const ApiError& error) {
  ended_ = true;
  backend_.active.remove(id_);
  exchange_->note("error", error.message);
  if (begun_) {
    write(error.json());
    exchange_->write(std::exchange(events_, {}));
    exchange_->end();
  } else {
    exchange_->send(error.response());
  }
  cancel();
}

ApiError Generation::error_of(const StepOutput& output) const {
  if (output.finish == FinishReason::timeout) {
    return ApiError(
        504,
        fmt::format("the request took longer than {:.3g} s",
                    std::chrono::duration<double>(backend_.request_time.value_or(std::chrono::milliseconds(0))).count()));
  }
  switch (output.error) {
    case RequestError::too_long: {
      ApiError error(400, output.text, "", "context_length_exceeded");
      error.type = "exceed_context_size_error";
      error.details = {{"n_prompt_tokens", std::ranges::max(prompt_sizes_)}, {"n_ctx", model().context_length}};
      return error;
    }
    case RequestError::queue_full: {
      ApiError error(429, output.text);
      error.retry_after_seconds = 1;
      return error;
    }
    case RequestError::invalid:
      return ApiError(400, output.text);
    case RequestError::none:
      break;
  }
  return ApiError(500, output.text);
}

void Generation::add_notes() {
  const Json counts = usage();
  exchange_->note("stream", options_.stream);
  exchange_->note("prompt_tokens", counts["prompt_tokens"]);
  exchange_->note("cached_tokens", counts["prompt_tokens_details"]["cached_tokens"]);
  exchange_->note("completion_tokens", counts["completion_tokens"]);
  if (exchange_->log().shows_texts()) {
    Json texts = Json::array();
    for (const Choice& one : choices_) {
      texts.push_back(one.text);
    }
    exchange_->note("answers", std::move(texts));
  }
  exchange_->note("finish", name(choices_.front().finish));
  exchange_->note("queue_seconds", choices_.front().stats.queue_seconds);
  exchange_->note("first_token_seconds", choices_.front().stats.prompt_seconds);
}

Json Generation::head(std::string_view object) const {
  return {
      {"id", id_}, {"object", object}, {"created", created_}, {"model", model().id}, {"system_fingerprint", fingerprint}};
}

Json Generation::usage() const {
  std::int64_t prompt = 0;
  std::int64_t cached = 0;
  std::int64_t completion = 0;
  for (std::size_t i = 0; i < choices_.size(); ++i) {
    const RequestStats& stats = choices_[i].stats;
    if (i % static_cast<std::size_t>(count_) == 0) {
      prompt += stats.prompt_tokens;
      cached += stats.cached_tokens;
    }
    completion += stats.generated_tokens;
  }
  return {{"prompt_tokens", prompt},
          {"completion_tokens", completion},
          {"total_tokens", prompt + completion},
          {"prompt_tokens_details", {{"cached_tokens", cached}}},
          {"completion_tokens_details", {{"reasoning_tokens", 0}}}};
}

Json Generation::decode_timings(const RequestStats& stats) {
  const double predicted = stats.generated_tokens;
  return {{"predicted_n", stats.generated_tokens},
          {"predicted_ms", stats.decode_seconds * 1e3},
          {"predicted_per_token_ms", predicted > 1 ? stats.decode_seconds * 1e3 / (predicted - 1) : 0.0},
          {"predicted_per_second", per_second(predicted - 1, stats.decode_seconds)}};
}

Json Generation::timings(const RequestStats& stats) {
  const double computed = stats.prompt_tokens - stats.cached_tokens;
  const double prompt_seconds = std::max(0.0, stats.prompt_seconds - stats.queue_seconds);
  Json json = {{"cache_n", stats.cached_tokens},
               {"prompt_n", stats.prompt_tokens - stats.cached_tokens},
               {"prompt_ms", prompt_seconds * 1e3},
               {"prompt_per_token_ms", computed > 0 ? prompt_seconds * 1e3 / computed : 0.0},
               {"prompt_per_second", per_second(computed, prompt_seconds)}};
  json.update(decode_timings(stats));
  return json;
}

// A cancelled answer is one that was cut short, which OpenAI's list has no better word for.
std::string_view Generation::finish_text(FinishReason reason) { return reason == FinishReason::stop ? "stop" : "length"; }

}  // namespace rocmforge
