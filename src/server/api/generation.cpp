#include "server/api/generation.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "service/prefix_hash.h"

namespace rocmforge {
namespace {

/// The memory of an answer until it ends; the engine and the scheduler each have a copy of it.
std::int64_t bytes_of(const Request& request) {
  constexpr std::size_t base = 4096;
  constexpr std::size_t copies = 3;
  constexpr std::size_t bias_bytes = 72;  // a node of a map
  std::size_t bytes =
      base + copies * (request.prompt.size() * sizeof(std::int32_t) + request.sampling.logit_bias.size() * bias_bytes);
  bytes += copies * request.cache_salt.size();
  for (const std::string& stop : request.stop) {
    bytes += copies * (stop.size() + sizeof(stop));
  }
  return static_cast<std::int64_t>(bytes);
}

std::int64_t bytes_of(const TokenLogprobs& token) {
  constexpr std::size_t entry = 64;  // of PendingLogprobs, which grows by doubling
  return static_cast<std::int64_t>(entry + sizeof(token) + token.top.size() * sizeof(TokenLogprob));
}

}  // namespace

void ActiveGenerations::add(const std::string& id, std::weak_ptr<Generation> generation) {
  const std::lock_guard lock(mutex_);
  generations_[id] = std::move(generation);
}

void ActiveGenerations::remove(const std::string& id) {
  const std::lock_guard lock(mutex_);
  generations_.erase(id);
}

bool ActiveGenerations::cancel(const std::string& id, std::string_view owner) {
  std::shared_ptr<Generation> generation;
  {
    const std::lock_guard lock(mutex_);
    const auto found = generations_.find(id);
    generation = found == generations_.end() ? nullptr : found->second.lock();
  }
  if (generation == nullptr || generation->owner() != owner) {
    return false;
  }
  generation->cancel();
  return true;
}

Generation::Generation(std::shared_ptr<HttpExchange> exchange, const Backend& backend, StreamOptions options,
                       std::string_view prefix)
    : exchange_(std::move(exchange)), backend_(backend), options_(options), answers_(backend.model, prefix) {}

Generation::~Generation() { backend_.active.remove(answers_.id); }

void Generation::start(std::vector<Request> requests, int count) {
  const std::size_t answers = requests.size() * static_cast<std::size_t>(count);
  const FairShares& places = backend_.instance->loop().places();
  check_answer_count(answers, places);
  answers_.count = count;
  std::int64_t bytes = own_bytes() + exchange_->reading.held_to_end();
  for (Request& request : requests) {
    check_priority(request.priority);
    prompt_sizes_.push_back(request.prompt.size());
    request.deadline = exchange_->limits().deadline;
    request.deadline_is_for_first_token = options_.stream;
    request.cache_salt = salt_in_space(backend_.model, exchange_->limits().prefix_space, request.cache_salt);
    bytes += count * bytes_of(request);
  }
  if (std::string hash = requests.size() == 1 ? prefix_hash(requests.front()) : ""; !hash.empty()) {
    exchange_->add_header("X-Prefix-Hash", std::move(hash));
  }
  exchange_->reading.keep(bytes);
  answers_.choices.resize(answers);
  backend_.active.add(answers_.id, weak_from_this());
  exchange_->reading.budget.spend(0);
  exchange_->on_drop([weak = weak_from_this()] {
    if (const auto self = weak.lock()) {
      self->cancel();
      self->exchange_->note("client_left", true);
    }
  });
  const std::string& client = exchange_->request.account;
  const EngineLoop::Ticket ticket = backend_.instance->loop().submit(std::move(requests), count, shared_from_this(), client);
  if (ticket == 0) {
    ApiError error(429,
                   places.used() + static_cast<std::int64_t>(answers) > places.open()
                       ? fmt::format("the queue is full: {} answers are under way", places.used())
                       : fmt::format("the queue is full for this client: it has {} answers under way and may have {} now",
                                     places.used_by(client), places.most_of(client)));
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
    backend_.instance->loop().cancel(ticket);
  }
}

void Generation::start(Request request, int count) {
  std::vector<Request> requests;
  requests.push_back(std::move(request));
  start(std::move(requests), count);
}

void Generation::check_priority(std::int32_t priority) const {
  const std::int32_t most = exchange_->limits().max_priority;
  if (priority < -most) {
    throw ApiError(400, fmt::format("priority is {}, must be {} to 1000", priority, -most), "priority");
  }
}

void Generation::cancel() noexcept {
  const std::lock_guard lock(mutex_);
  if (!std::exchange(cancelled_, true) && ticket_ != 0) {
    backend_.instance->loop().cancel(ticket_);
  }
}

// A client and a proxy see at once that the answer has begun, though the prompt may take long.
void Generation::on_accepted() {
  if (options_.stream && !ended_) {
    begin_stream();
  }
}

void Generation::on_output(Delivery delivery) {
  if (ended_) {
    return;
  }
  try {
    handle(std::move(delivery));
  } catch (const ApiError& error) {
    fail(error);
  } catch (const ServiceError& error) {
    fail(error);
  }
}

// Reports the failure if that is possible; without memory for it the connection is closed.
void Generation::on_failure() noexcept {
  try {
    fail(no_memory_for_answer());
  } catch (const std::exception&) {
    ended_ = true;
    exchange_->drop();
  }
  cancel();
}

void Generation::count(const StepOutput& output) {
  constexpr std::int64_t step = 16 << 10;  // not for each token, since other requests count too
  constexpr std::int64_t copies = 3;       // of a text: as it came, its parts, and one that grows
  uncounted_bytes_ += copies * static_cast<std::int64_t>(output.text.size()) + 2 * sizeof(std::int32_t) +
                      static_cast<std::int64_t>(output.embedding.size() * sizeof(float));
  for (const auto* tokens : {&output.logprobs, &output.prompt_logprobs}) {
    for (const TokenLogprobs& token : *tokens) {
      uncounted_bytes_ += options_.stream && tokens == &output.logprobs ? 0 : bytes_of(token);
    }
  }
  if (uncounted_bytes_ >= step) {
    exchange_->reading.hold(std::exchange(uncounted_bytes_, 0));
  }
}

void Generation::handle(Delivery delivery) {
  StepOutput& output = delivery.output;
  if (output.finish == FinishReason::error || output.finish == FinishReason::timeout) {
    return fail(error_of_answer(output, std::ranges::max(prompt_sizes_), model(), backend_.request_time));
  }
  if (output.finish == FinishReason::cancelled && !may_be_partial()) {
    return fail(ApiError(503, "the request was cancelled before its answer was complete"));
  }
  count(output);
  Choice& into = choice(delivery.choice);
  into.count(delivery, model());
  take(delivery.choice, output);
  into.finish = output.finish;
  if (output.stats) {
    into.stats = *output.stats;
    ++finished_;
  }
  if (!options_.stream || exchange_->log().shows_texts()) {
    into.text += output.text;
  }
  if (options_.stream) {
    stream(delivery.choice, output);
  }
  if (finished_ == answers_.choices.size()) {
    finish();
  }
}

void Generation::write(const Json& event) {
  if (stream_form() == StreamForm::lines) {
    events_ += to_text(event) + "\n";
    return;
  }
  const bool is_named = stream_form() == StreamForm::named_events;
  std::string begin = is_named ? fmt::format("event: {}\n", event.at("type").get_ref<const std::string&>()) : "";
  begin += "data: ";
  if (TextPieces text = long_event(event)) {  // written at once: a heartbeat may stand between events alone
    TextPieces whole = pieces_of({pieces_of(std::move(begin)), std::move(text), pieces_of("\n\n")});
    long_events_.push_back({std::exchange(events_, {}), std::move(whole)});
  } else {
    events_ += fmt::format("{}{}\n\n", begin, to_text(event));
  }
}

bool Generation::flush() {
  bool goes_on = true;
  for (LongEvent& event : std::exchange(long_events_, {})) {
    goes_on = goes_on && exchange_->write(event.before) && exchange_->write_pieces(std::move(event.text));
  }
  return goes_on && exchange_->write(std::exchange(events_, {}));
}

void Generation::begin_stream() {
  if (begun_) {
    return;
  }
  const bool is_lines = stream_form() == StreamForm::lines;  // they have no form for a comment
  exchange_->begin({.content_type = is_lines ? "application/x-ndjson" : "text/event-stream",
                    .headers = {{"Cache-Control", "no-cache"}, {"X-Accel-Buffering", "no"}},
                    .heartbeat = is_lines ? "" : ": waiting\n\n"});
  begun_ = true;  // not before: without its head the answer has not begun
}

void Generation::stream(int index, const StepOutput& output) {
  for (Json& event : events(index, output)) {
    add_timings(event, options_, choice(index), output);
    write(event);
  }
  if (events_.empty() && long_events_.empty()) {
    return;
  }
  begin_stream();
  if (!flush()) {
    cancel();
  }
}

void Generation::finish() {
  ended_ = true;
  backend_.active.remove(answers_.id);
  add_notes();
  if (!options_.stream) {
    return exchange_->send_pieces(whole(), content_type());
  }
  for (const Json& event : last_events()) {
    write(event);
  }
  if (says_done()) {
    events_ += "data: [DONE]\n\n";
  }
  flush();
  exchange_->end();
}

TextPieces Generation::whole() {
  const auto self = shared_from_this();  // choices are made as the client takes them
  if (is_single()) {
    return entry_in_pieces(0);
  }
  const Json around = envelope();
  TextPieces entries =
      list_of_pieces(num_entries(), [self](std::size_t i) { return self->entry_in_pieces(static_cast<int>(i)); });
  return around.is_null() ? entries : with_member(around, entries_name(), std::move(entries));
}

void Generation::fail(const ApiError& error) {
  ended_ = true;
  events_.clear();
  long_events_.clear();
  backend_.active.remove(answers_.id);
  exchange_->note("error", error.message);
  if (begun_) {
    write(error_event(error));
    flush();
    exchange_->end();
  } else {
    exchange_->send(error.response(error_form()));
  }
  cancel();
}

void Generation::add_notes() {
  const Json counts = usage();
  exchange_->note("stream", options_.stream);
  exchange_->note("prompt_tokens", counts["prompt_tokens"]);
  exchange_->note("cached_tokens", counts["prompt_tokens_details"]["cached_tokens"]);
  exchange_->note("completion_tokens", counts["completion_tokens"]);
  if (exchange_->log().shows_texts()) {
    Json texts = Json::array();
    for (const Choice& one : answers_.choices) {
      texts.push_back(one.text);
    }
    exchange_->note("answers", std::move(texts));
  }
  exchange_->note("finish", name(answers_.choices.front().finish));
  exchange_->note("queue_seconds", answers_.choices.front().stats.queue_seconds);
  exchange_->note("first_token_seconds", answers_.choices.front().stats.prompt_seconds);
}

}  // namespace rocmforge
