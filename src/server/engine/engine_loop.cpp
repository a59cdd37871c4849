#include "server/engine/engine_loop.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <new>
#include <utility>

#include "base/log.h"

namespace rocmforge {
namespace {

/// So many outputs may wait for delivery: beyond that the engine waits, since delivery is what is slow then.
constexpr std::size_t most_parcels = 65'536;

double seconds(std::chrono::steady_clock::duration time) { return std::chrono::duration<double>(time).count(); }

}  // namespace

EngineLoop::EngineLoop(std::unique_ptr<Engine> engine, ServerMetrics& metrics, std::int32_t capacity,
                       std::int32_t client_share)
    : engine_(std::move(engine)), metrics_(metrics), places_(capacity, client_share) {
  metrics_.stepped(engine_->status());
  deliverer_ = std::jthread([this] { deliver(); });
  runner_ = std::jthread([this] { run(); });
}

EngineLoop::~EngineLoop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  commands_came_.notify_all();
  runner_.join();
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
  for (Request& request : requests) {
    request.client = places_.number_of(client);
  }
  const Ticket ticket = ++last_ticket_;
  // Shared because a std::function can be copied, which a submission is not.
  auto submission = std::make_shared<Submission>(
      Submission{ticket, std::move(requests), count, std::move(listener), client, Clock::now()});
  post([this, submission, answers] {
    try {
      start(*submission);
    } catch (const std::bad_alloc&) {
      give_up(*submission, answers);
    }
  });
  return ticket;
}

void EngineLoop::cancel(Ticket ticket) {
  post([this, ticket] { stop_ticket(ticket); });
}

void EngineLoop::cancel_all() {
  post([this] {
    std::vector<Ticket> all;
    for (const auto& [ticket, answers] : tickets_) {
      all.push_back(ticket);
    }
    std::ranges::for_each(all, [this](Ticket ticket) { stop_ticket(ticket); });
  });
}

void EngineLoop::ask(std::function<void(Engine&)> function) {
  post([this, function = std::move(function)] {
    try {
      function(*engine_);
    } catch (const std::exception& error) {  // whoever asked is not answered; everybody else is
      log_warning("a question to the engine failed: {}", error.what());
    }
  });
}

std::string EngineLoop::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

void EngineLoop::post(std::function<void()> command) {
  {
    const std::lock_guard lock(mutex_);
    commands_.push_back(std::move(command));
  }
  commands_came_.notify_one();
}

void EngineLoop::run() {
  for (;;) {
    std::vector<std::function<void()>> commands;
    bool stopping = false;
    {
      std::unique_lock lock(mutex_);
      commands_came_.wait(lock,
                          [this] { return stopping_ || !commands_.empty() || (failure_.empty() && engine_->has_work()); });
      commands.swap(commands_);
      stopping = stopping_;
    }
    for (const auto& command : commands) {
      try {
        command();
      } catch (const std::exception& error) {
        fail(error.what());
      }
    }
    if (stopping) {
      while (!tickets_.empty()) {
        stop_ticket(tickets_.begin()->first);
        step();
      }
      return;
    }
    if (failure().empty() && engine_->has_work()) {
      step();
    }
  }
}

void EngineLoop::start(Submission& submission) {
  Answers& answers = tickets_[submission.ticket];
  answers.client = submission.client;
  std::vector<RequestId>& all = answers.running;
  int choice = 0;
  for (Request& request : submission.requests) {
    const auto prompt_tokens = static_cast<std::int32_t>(request.prompt.size());
    metrics_.submitted(submission.count, request.max_tokens);
    bool first = true;
    for (const RequestId id : engine_->submit(std::move(request), submission.count)) {
      tracks_[id] = {submission.ticket,   choice++,      std::exchange(first, false),
                     submission.listener, prompt_tokens, submission.came};
      all.push_back(id);
    }
  }
  if (const std::string reason = failure(); !reason.empty()) {
    fail(reason);
  }
}

void EngineLoop::give_up(const Submission& submission, std::int64_t answers) {
  log_warning("there was no memory to start a request");
  if (const auto found = tickets_.find(submission.ticket); found != tickets_.end()) {
    for (const RequestId id : found->second.running) {
      engine_->cancel(id);
      tracks_.erase(id);
    }
    tickets_.erase(found);
  }
  places_.give_back(submission.client, answers);
  std::vector<Parcel> parcels;
  parcels.push_back({submission.listener, {}, true});
  send(std::move(parcels));
}

void EngineLoop::stop_ticket(Ticket ticket) {
  if (const auto found = tickets_.find(ticket); found != tickets_.end()) {
    for (const RequestId id : std::vector(found->second.running)) {
      engine_->cancel(id);
    }
  }
}

void EngineLoop::step() {
  try {
    std::vector<StepOutput> outputs = engine_->step();
    const Clock::time_point now = Clock::now();
    std::vector<Parcel> parcels;
    parcels.reserve(outputs.size());
    for (StepOutput& output : outputs) {
      handle(std::move(output), now, parcels);
    }
    metrics_.stepped(engine_->status());
    send(std::move(parcels));
  } catch (const std::exception& error) {
    fail(error.what());
  }
}

// A step that throws is a broken device or a mistake in the engine: what it holds is worth nothing any more.
void EngineLoop::fail(const std::string& reason) {
  if (failure().empty()) {
    log_warning("the engine has failed and serves no longer: {}", reason);
    const std::lock_guard lock(mutex_);
    failure_ = reason;
  }
  std::vector<Parcel> parcels;
  for (auto& [id, track] : tracks_) {
    StepOutput output;
    output.id = id;
    output.text = fmt::format("the engine has failed: {}", reason);
    output.finish = FinishReason::error;
    parcels.push_back({std::move(track.listener), {track.choice, std::move(output), RequestStats{}, 0.0}});
    places_.give_back(tickets_.at(track.ticket).client, 1);
    metrics_.finished(FinishReason::error, {}, 0.0, true);
    engine_->cancel(id);
  }
  tracks_.clear();
  tickets_.clear();
  send(std::move(parcels));
}

void EngineLoop::handle(StepOutput output, Clock::time_point now, std::vector<Parcel>& parcels) {
  const auto found = tracks_.find(output.id);
  if (found == tracks_.end()) {
    return;
  }
  Track& track = found->second;
  if (output.token >= 0) {
    if (track.last_token) {
      metrics_.next_token(seconds(now - *track.last_token));
    } else {
      track.first_token = now;
      metrics_.first_token(seconds(now - track.submitted), track.first_of_prompt ? track.prompt_tokens : 0);
    }
    track.last_token = now;
  }
  const double decode_seconds = track.first_token ? seconds(now - *track.first_token) : 0.0;
  Parcel parcel{track.listener, {track.choice, std::move(output), {}, decode_seconds}};
  const StepOutput& sent = parcel.delivery.output;
  if (sent.finish != FinishReason::none) {
    parcel.delivery.stats = engine_->take_stats(sent.id);
    metrics_.finished(sent.finish, *parcel.delivery.stats, seconds(now - track.submitted), track.first_of_prompt);
    Answers& answers = tickets_.at(track.ticket);
    std::erase(answers.running, sent.id);
    answers.longest = std::max(answers.longest, parcel.delivery.stats->generated_tokens);
    places_.give_back(answers.client, 1);
    if (answers.running.empty()) {
      metrics_.all_finished(answers.longest);
      tickets_.erase(track.ticket);
    }
    tracks_.erase(found);
  }
  parcels.push_back(std::move(parcel));
}

void EngineLoop::send(std::vector<Parcel> parcels) {
  if (parcels.empty()) {
    return;
  }
  {
    std::unique_lock lock(parcel_mutex_);
    parcels_changed_.wait(lock, [this] { return parcels_.size() < most_parcels; });
    std::ranges::move(parcels, std::back_inserter(parcels_));
  }
  parcels_changed_.notify_all();
}

// One request's failure is no other's.
void EngineLoop::hand_out(Parcel& parcel) {
  if (!parcel.failed) {
    try {
      return parcel.listener->on_output(std::move(parcel.delivery));
    } catch (const std::exception&) {  // no memory; the listener says so to its client
    }
  }
  parcel.listener->on_failure();
}

void EngineLoop::deliver() {
  for (;;) {
    std::vector<Parcel> parcels;
    {
      std::unique_lock lock(parcel_mutex_);
      parcels_changed_.wait(lock, [this] { return delivered_all_ || !parcels_.empty(); });
      if (parcels_.empty()) {
        return;
      }
      parcels.swap(parcels_);
    }
    parcels_changed_.notify_all();
    for (Parcel& parcel : parcels) {
      hand_out(parcel);
    }
  }
}

}  // namespace rocmforge
