#include "service/loop.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <new>
#include <utility>

#include "base/log.h"

namespace rocmforge {
namespace {

/// The most outputs that wait for delivery: beyond that the engine waits, since delivery is the slow part then.
constexpr std::size_t most_parcels = 65'536;

double seconds(std::chrono::steady_clock::duration time) { return std::chrono::duration<double>(time).count(); }

}  // namespace

EngineLoop::EngineLoop(std::unique_ptr<Engine> engine, ServiceMetrics& metrics, std::int32_t capacity,
                       std::int32_t client_share)
    : engine_(std::move(engine)), metrics_(metrics), places_(capacity, client_share) {
  metrics_.stepped(engine_->status());
  engine_->watch_steps([this](const std::string& line) { abandon(line); });
  deliverer_ = std::jthread([this] { deliver(); });
  runner_ = std::jthread([this] { run(); });
}

void EngineLoop::stop() {
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(stopping_, true)) {
      return;
    }
  }
  commands_came_.notify_all();
  runner_.join();
  engine_.reset();  // and with it the watch of its steps, which may end answers
  {
    const std::lock_guard lock(parcel_mutex_);
    delivered_all_ = true;
  }
  parcels_changed_.notify_all();
  deliverer_.join();
}

EngineLoop::Ticket EngineLoop::submit(std::vector<Request> requests, int count, std::shared_ptr<OutputListener> listener,
                                      const std::string& client) {
  const std::int64_t answers = static_cast<std::int64_t>(requests.size()) * count;
  if (!places_.take(client, answers)) {
    return 0;
  }
  try {
    const std::uint64_t number = places_.number_of(client);
    for (Request& request : requests) {
      request.client = number;
    }
    const Ticket ticket = ++last_ticket_;
    std::list<std::shared_ptr<Submission>> made = {std::make_shared<Submission>(
        Submission{ticket, std::move(requests), count, std::move(listener), client, Clock::now()})};
    Submission& submission = *made.front();
    submission.answers = answers;
    submission.running.reserve(static_cast<std::size_t>(answers));
    for (int choice = 0; choice < answers; ++choice) {
      submission.ends.push_back({submission.listener, {.choice = choice}});
    }
    submission.acceptance.push_back({.listener = submission.listener, .accepted = true});
    Submissions entry;
    entry.emplace(ticket, made.front());
    {
      const std::lock_guard lock(mutex_);
      if (abandoned_ || stopping_) {
        places_.give_back(client, answers);
        return 0;
      }
      open_.merge(entry);
      came_.splice(came_.end(), made);
    }
    commands_came_.notify_one();
    return ticket;
  } catch (const std::bad_alloc&) {
    places_.give_back(client, answers);
    throw;
  }
}

void EngineLoop::cancel(Ticket ticket) noexcept {
  {
    const std::lock_guard lock(mutex_);
    cancelled_.insert(open_.extract(ticket));
  }
  commands_came_.notify_one();
}

void EngineLoop::cancel_all() noexcept {
  {
    const std::lock_guard lock(mutex_);
    cancelled_.merge(open_);
  }
  commands_came_.notify_one();
}

void EngineLoop::ask(std::function<void(Engine&)> question) {
  std::list<std::function<void(Engine&)>> made;
  made.push_back(std::move(question));
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) {
      return;
    }
    questions_.splice(questions_.end(), made);
  }
  commands_came_.notify_one();
}

std::string EngineLoop::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

bool EngineLoop::has_failed() const {
  const std::lock_guard lock(mutex_);
  return has_failed_;
}

void EngineLoop::run() {
  for (;;) {
    std::list<std::shared_ptr<Submission>> came;
    Submissions cancelled;
    std::list<std::function<void(Engine&)>> questions;
    bool stopping = false;
    {
      std::unique_lock lock(mutex_);
      commands_came_.wait(lock, [this] {
        return stopping_ || !came_.empty() || !cancelled_.empty() || !questions_.empty() ||
               (!has_failed_ && engine_->has_work());
      });
      came.swap(came_);
      cancelled.swap(cancelled_);
      questions.swap(questions_);
      stopping = stopping_;
    }
    std::ranges::for_each(came, [this](const auto& submission) { start(submission); });
    std::ranges::for_each(cancelled, [this](const auto& entry) { stop(*entry.second); });
    std::ranges::for_each(questions, [this](const auto& question) { answer(question); });
    if (stopping) {
      while (!tracks_.empty()) {
        std::ranges::for_each(tracks_, [this](const auto& entry) { engine_->cancel(entry.first); });
        step();
        if (is_abandoned()) {
          break;
        }
      }
      return;
    }
    if (!has_failed() && engine_->has_work()) {
      step();
    }
    if (is_abandoned()) {
      return;
    }
  }
}

void EngineLoop::start(const std::shared_ptr<Submission>& submission) {
  try {
    hand_to_engine(submission);
  } catch (const std::bad_alloc&) {
    give_up(*submission);
  } catch (const std::exception& error) {
    give_up(*submission);
    fail(error.what());
  }
}

void EngineLoop::hand_to_engine(const std::shared_ptr<Submission>& submission) {
  for (Request& request : submission->requests) {
    const auto prompt_tokens = static_cast<std::int32_t>(request.prompt.size());
    metrics_.submitted(submission->count, request.max_tokens);
    bool first = true;
    for (const RequestId id : engine_->submit(std::move(request), submission->count)) {
      submission->running.push_back(id);
      Track& track = tracks_[id];
      track.submission = submission;
      track.end.splice(track.end.end(), submission->ends, submission->ends.begin());
      track.first_of_prompt = std::exchange(first, false);
      track.prompt_tokens = prompt_tokens;
    }
  }
  submission->requests.clear();
  if (has_failed()) {
    return fail(failure());
  }
  if (std::ranges::all_of(submission->running, [this](RequestId id) { return engine_->is_open(id); })) {
    send(std::move(submission->acceptance));
  }
}

void EngineLoop::give_up(Submission& submission) {
  log_warning("a request could not be started for want of memory");
  Events ends = std::move(submission.ends);
  for (const RequestId id : submission.running) {
    engine_->cancel(id);
    if (const auto track = tracks_.find(id); track != tracks_.end()) {
      ends.splice(ends.end(), track->second.end);
      tracks_.erase(track);
    }
  }
  places_.give_back(submission.client, submission.answers);
  {
    const std::lock_guard lock(mutex_);
    open_.erase(submission.ticket);
  }
  Events notice;
  notice.splice(notice.end(), ends, ends.begin());
  notice.front().failed = true;
  send(std::move(notice));
}

void EngineLoop::stop(const Submission& submission) {
  for (const RequestId id : submission.running) {
    engine_->cancel(id);
  }
}

void EngineLoop::answer(const std::function<void(Engine&)>& question) {
  try {
    question(*engine_);
  } catch (const std::exception& error) {  // only this question fails
    log_warning("a question to the engine failed: {}", error.what());
  }
}

bool EngineLoop::is_abandoned() const {
  const std::lock_guard lock(mutex_);
  return abandoned_;
}

bool EngineLoop::step_ended() {
  const std::lock_guard lock(mutex_);
  stepping_ = false;
  return !abandoned_;
}

void EngineLoop::abandon(const std::string& line) {
  std::function<void(const std::string&)> tell;
  std::list<std::shared_ptr<Submission>> waiting;
  {
    const std::lock_guard lock(mutex_);
    if (!stepping_) {
      return;  // it has ended at the last moment
    }
    abandoned_ = true;
    tell = on_abandoned_;
    waiting.swap(came_);
  }
  fail(line);
  std::ranges::for_each(waiting, [&](const auto& submission) { refuse(*submission, line); });
  if (tell) {
    tell(line);
  }
}

void EngineLoop::end_with_failure(Event& event, const std::string& reason) {
  event.delivery.output.finish = FinishReason::error;
  event.delivery.output.stats = RequestStats{};
  try {
    event.delivery.output.text = fmt::format("the engine has failed: {}", reason);
  } catch (const std::bad_alloc&) {
    event.failed = true;
  }
}

void EngineLoop::refuse(Submission& submission, const std::string& reason) {
  for (Event& event : submission.ends) {
    end_with_failure(event, reason);
  }
  places_.give_back(submission.client, submission.answers);
  {
    const std::lock_guard lock(mutex_);
    open_.erase(submission.ticket);
  }
  send(std::move(submission.ends));
}

void EngineLoop::on_abandoned(std::function<void(const std::string& line)> call) {
  const std::lock_guard lock(mutex_);
  on_abandoned_ = std::move(call);
}

void EngineLoop::step() {
  {
    const std::lock_guard lock(mutex_);
    stepping_ = true;
  }
  try {
    std::vector<StepOutput>& outputs = engine_->step();
    if (!step_ended()) {
      return;
    }
    const Clock::time_point now = Clock::now();
    Events events;
    for (StepOutput& output : outputs) {
      handle(output, now, events);
    }
    metrics_.stepped(engine_->status());
    send(std::move(events));
  } catch (const std::exception& error) {
    if (step_ended()) {
      fail(error.what());
    }
  }
}

// A step that throws means a broken device or a bug in the engine: its state is of no use any more.
void EngineLoop::fail(const std::string& reason) noexcept {
  {
    const std::lock_guard lock(mutex_);
    if (!std::exchange(has_failed_, true)) {
      log_warning("the engine has failed and serves no longer: {}", reason);
      try {
        failure_ = reason;
      } catch (const std::bad_alloc&) {
        failure_ = "no memory left";  // short: allocates nothing
      }
    }
  }
  Events events;
  while (!tracks_.empty()) {
    const auto place = tracks_.begin();
    const RequestId id = place->first;
    Event& event = place->second.end.front();
    event.delivery.output.id = id;
    end_with_failure(event, reason);
    metrics_.finished(FinishReason::error, {}, 0.0, true);
    end(place, events);
    if (!is_abandoned()) {
      engine_->cancel(id);
    }
  }
  send(std::move(events));
}

void EngineLoop::count_token(Track& track, Clock::time_point now) {
  if (track.last_token) {
    metrics_.next_token(seconds(now - *track.last_token));
  } else {
    track.first_token = now;
    metrics_.first_token(seconds(now - track.submission->came), track.first_of_prompt ? track.prompt_tokens : 0);
  }
  track.last_token = now;
}

void EngineLoop::handle(StepOutput& output, Clock::time_point now, Events& events) {
  const RequestId id = output.id;
  const bool ends = output.finish != FinishReason::none;
  const auto found = tracks_.find(id);
  if (found == tracks_.end()) {  // give_up() has removed it
    return;
  }
  Track& track = found->second;
  for (std::size_t i = 0; i < output.tokens.size(); ++i) {
    count_token(track, now);
  }
  Event& last = track.end.front();
  last.delivery.decode_seconds = track.first_token ? seconds(now - *track.first_token) : 0.0;
  if (!ends) {
    try {
      events.push_back({last.listener, {last.delivery.choice, std::move(output), last.delivery.decode_seconds}});
      return;
    } catch (const std::bad_alloc&) {
      last.failed = true;
      engine_->cancel(id);
      metrics_.finished(FinishReason::error, {}, 0.0, track.first_of_prompt);
      return end(found, events);
    }
  }
  last.delivery.output = std::move(output);
  metrics_.finished(last.delivery.output.finish, *last.delivery.output.stats, seconds(now - track.submission->came),
                    track.first_of_prompt);
  end(found, events);
}

void EngineLoop::end(Tracks::iterator place, Events& events) {
  Submission& submission = *place->second.submission;
  const std::optional<RequestStats>& stats = place->second.end.front().delivery.output.stats;
  std::erase(submission.running, place->first);
  submission.longest = std::max(submission.longest, stats ? stats->generated_tokens : 0);
  places_.give_back(submission.client, 1);
  if (submission.running.empty()) {
    metrics_.all_finished(submission.longest);
    const std::lock_guard lock(mutex_);
    open_.erase(submission.ticket);
    cancelled_.erase(submission.ticket);
  }
  events.splice(events.end(), place->second.end);
  tracks_.erase(place);
}

void EngineLoop::send(Events events) {
  if (events.empty()) {
    return;
  }
  {
    std::unique_lock lock(parcel_mutex_);
    parcels_changed_.wait(lock, [this] { return parcels_.size() < most_parcels; });
    parcels_.splice(parcels_.end(), events);
  }
  parcels_changed_.notify_all();
}

// One request's failure does not affect others.
void EngineLoop::hand_out(Event& event) {
  if (!event.failed) {
    try {
      return event.accepted ? event.listener->on_accepted() : event.listener->on_output(std::move(event.delivery));
    } catch (const std::exception&) {  // no memory; the listener tells its client
    }
  }
  event.listener->on_failure();
}

void EngineLoop::deliver() {
  for (;;) {
    Events events;
    {
      std::unique_lock lock(parcel_mutex_);
      parcels_changed_.wait(lock, [this] { return delivered_all_ || !parcels_.empty(); });
      if (parcels_.empty()) {
        return;
      }
      events.swap(parcels_);
    }
    parcels_changed_.notify_all();
    for (Event& event : events) {
      hand_out(event);
    }
  }
}

}  // namespace rocmforge
