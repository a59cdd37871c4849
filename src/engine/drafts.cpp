#include "engine/drafts.h"

#include <algorithm>
#include <functional>
#include <string>

namespace rocmforge {

namespace {

/// The most tokens of a sequence that one step adds to the table.
constexpr std::int32_t learned_tokens = 4096;

/// Tokens that are less likely to be accepted are never drafted: estimates of time and acceptance are not exact.
constexpr double least_rate = 0.1;

std::uint64_t salt_of(const Request& request) {
  return request.cache_salt.empty() ? 0 : std::hash<std::string>{}(request.cache_salt);
}

std::span<const std::int32_t> tokens_of(const Sequence& sequence) {
  return std::span(sequence.tokens).first(static_cast<std::size_t>(sequence.length()));
}

}  // namespace

Drafts::Drafts(const DraftOptions& options) : options_(options) {
  if (options.are_on()) {
    table_.emplace(static_cast<std::size_t>(options.ngram));
  }
}

void Drafts::learn(Running& running) {
  const std::int32_t known = std::min(running.drafting.learned, running.length());  // a shift drops tokens
  const std::int32_t end = std::min(running.length(), known + learned_tokens);
  table_->add(tokens_of(running).first(static_cast<std::size_t>(end)), static_cast<std::size_t>(known),
              salt_of(running.request));
  running.drafting.learned = end;
}

// The masks of constrained draws are made one token at a time.
std::int32_t Drafts::most_for(const Sequence& sequence, const Scheduler& scheduler) {
  return sequence.request.constraint != nullptr ? 0 : scheduler.max_drafts(sequence);
}

void Drafts::look_up(const Running& running, std::int32_t most) {
  const std::span<const std::int32_t> tokens = tokens_of(running);
  const std::span<const std::int32_t> last = tokens.last(std::min(tokens.size(), table_->longest_run()));
  run_.assign(last.begin(), last.end());
  known_ = run_.size();
  const std::uint64_t salt = salt_of(running.request);
  while (run_.size() < known_ + static_cast<std::size_t>(most)) {
    const std::int32_t token = table_->next(run_, salt);
    if (token < 0) {
      return;
    }
    run_.push_back(token);
  }
}

void Drafts::propose(const Scheduler& scheduler) {
  if (!are_on()) {
    return;
  }
  const auto decodes = static_cast<std::int32_t>(std::ranges::count_if(
      scheduler.running(), [](const Sequence* sequence) { return sequence->phase == SequencePhase::decode; }));
  const double least = std::max(least_rate, cost_.cost_of_row(std::max(decodes, 1)));
  for (Sequence* sequence : scheduler.running()) {
    Running& running = Running::of(*sequence);
    running.set_drafts({});
    learn(running);
    std::int32_t most = std::min(options_.most, most_for(running, scheduler));
    if (options_.adapts) {
      most = running.drafting.depth.next(most, least);
    }
    look_up(running, most);
    const auto drafted = std::span<const std::int32_t>(run_).subspan(known_);
    if (std::ssize(drafted) >= options_.least) {
      running.set_drafts(drafted);
    }
  }
}

bool Drafts::are_likely(std::span<const ScheduledChunk> running, const Scheduler& scheduler) {
  if (!are_on()) {
    return false;
  }
  bool likely = false;
  for (const ScheduledChunk& chunk : running) {
    if (chunk.sequence != nullptr) {
      Running& sequence = Running::of(*chunk.sequence);
      learn(sequence);
      if (!(options_.adapts && sequence.drafting.depth.pauses()) && most_for(sequence, scheduler) > 0) {
        look_up(sequence, 1);
        likely = likely || run_.size() > known_;
      }
    }
  }
  return likely;
}

void Drafts::take(Running& running, const ScheduledChunk& chunk, std::int32_t accepted) {
  const std::int32_t drafted = chunk.drafts();
  running.drafting.depth.take(drafted, accepted);
  running.drafting.drafted_tokens += drafted;
  running.drafting.accepted_tokens += accepted;
  num_drafts_ += drafted > 0 ? 1 : 0;
  drafted_tokens_ += drafted;
  accepted_tokens_ += accepted;
}

void Drafts::take_time(std::span<const ScheduledChunk> step, double seconds) {
  std::int32_t rows = 0;
  for (const ScheduledChunk& chunk : step) {
    if (chunk.sequence == nullptr || chunk.sequence->phase != SequencePhase::decode) {
      return;
    }
    rows += chunk.count;
  }
  cost_.add(rows, seconds);
}

}  // namespace rocmforge
