#include "engine/drafts.h"

#include <algorithm>
#include <functional>
#include <string>
#include <utility>

#include "base/error.h"
#include "engine/mask_work.h"

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

Drafts::Drafts(const DraftOptions& options, std::int32_t vocab, std::unique_ptr<Engine> model, std::optional<MtpDrafts> mtp)
    : options_(options), vocab_(vocab), mtp_(std::move(mtp)) {
  if (options.ngram > 0 && options.are_on()) {
    table_.emplace(static_cast<std::size_t>(options.ngram));
  }
  check(model == nullptr || !mtp_, "a draft model and an MTP block do not draft both");
  if (model != nullptr) {
    model_.emplace(std::move(model), vocab);
  }
}

void Drafts::watch_steps(const std::function<void(const std::string& line)>& on_timeout) {
  if (model_) {
    model_->watch_steps(on_timeout);
  }
}

void Drafts::learn(Running& running) {
  if (!table_) {
    return;
  }
  const std::int32_t known = std::min(running.drafting.learned, running.length());  // a shift drops tokens
  const std::int32_t end = std::min(running.length(), known + learned_tokens);
  table_->add(tokens_of(running).first(static_cast<std::size_t>(end)), static_cast<std::size_t>(known),
              salt_of(running.request));
  running.drafting.learned = end;
}

std::int32_t Drafts::depth(DraftDepth& depth, const AcceptedRate& usual, std::int32_t most) const {
  return options_.adapts ? depth.next(most, least_rate_, usual.rate()) : most;
}

void Drafts::find(Running& running, std::int32_t most) {
  const std::span<const std::int32_t> tokens = tokens_of(running);
  const std::span<const std::int32_t> last = tokens.last(std::min(tokens.size(), table_ ? table_->longest_run() : 0));
  run_.assign(last.begin(), last.end());
  known_ = run_.size();
  running.drafting.are_forced = false;
  Answer& answer = running.answer;
  const bool is_constrained = running.request.constraint != nullptr;
  if (most <= 0 || (is_constrained && !answer.begin_drafts(units_each_, vocab_))) {
    return;
  }
  const std::uint64_t salt = salt_of(running.request);
  std::int32_t from_table = table_ ? depth(running.drafting.table_depth, table_rate_, most) : 0;
  while (run_.size() < known_ + static_cast<std::size_t>(most)) {
    std::int32_t token = is_constrained ? answer.forced_token() : -1;
    if (token >= 0) {
      running.drafting.are_forced = true;
    } else if (from_table-- > 0) {
      token = table_->next(run_, salt);
    }
    if (token < 0 || (is_constrained && !answer.add_draft(token))) {
      return;
    }
    run_.push_back(token);
  }
}

void Drafts::set(Running& running, std::span<const std::int32_t> drafted) const {
  if (std::ssize(drafted) >= options_.least) {
    running.set_drafts(drafted);
  }
}

void Drafts::propose(Scheduler& scheduler) {
  if (!are_on()) {
    return;
  }
  std::int32_t decodes = 0;
  std::uint64_t constrained = 0;
  for (const Sequence* sequence : scheduler.running()) {
    const bool decode = sequence->phase == SequencePhase::decode;
    decodes += decode ? 1 : 0;
    constrained += decode && sequence->request.constraint != nullptr ? 1 : 0;
  }
  least_rate_ = std::max(least_rate, cost_.cost_of_row(std::max(decodes, 1)));
  units_each_ = MaskWork::step_units / 2 / std::max<std::uint64_t>(constrained, 1);
  orders_.clear();
  for (Sequence* sequence : scheduler.running()) {
    Running& running = Running::of(*sequence);
    running.set_drafts({});
    learn(running);
    const std::int32_t most = std::min(options_.most, scheduler.max_drafts(running));
    find(running, most);
    set(running, std::span<const std::int32_t>(run_).subspan(known_));
    running.drafting.by_model = asks_model() && running.drafts == 0;
    if (running.drafting.by_model && running.draws()) {
      orders_.push_back({.running = &running, .most = depth(running.drafting.model_depth, model_rate_, most)});
    }
  }
  ask_model(scheduler);
}

void Drafts::ask_model(Scheduler& scheduler) {
  if (mtp_) {  // without orders too: its K and V follow the model's
    mtp_->propose(orders_, scheduler);
  } else if (!orders_.empty()) {
    model_->propose(orders_);
  }
  for (DraftOrder& order : orders_) {
    Answer& answer = order.running->answer;
    if (order.running->request.constraint != nullptr && !order.tokens.empty()) {
      const bool may_draft = answer.begin_drafts(units_each_, vocab_);
      const auto end =
          std::ranges::find_if(order.tokens, [&](std::int32_t token) { return !may_draft || !answer.add_draft(token); });
      order.tokens.erase(end, order.tokens.end());
    }
    set(*order.running, order.tokens);
  }
}

bool Drafts::are_likely(std::span<const ScheduledChunk> running, const Scheduler& scheduler) {
  if (!are_on()) {
    return false;
  }
  bool likely = false;
  for (const ScheduledChunk& chunk : running) {
    if (chunk.sequence == nullptr || chunk.sequence->request.constraint != nullptr) {
      continue;  // a constrained draw waits for the token before it in any case
    }
    Running& sequence = Running::of(*chunk.sequence);
    learn(sequence);
    if (scheduler.max_drafts(sequence) == 0) {
      continue;
    }
    const Drafting& drafting = sequence.drafting;
    likely = likely || (asks_model() && !(options_.adapts && drafting.model_depth.pauses()));
    if (table_ && !(options_.adapts && drafting.table_depth.pauses())) {
      likely = likely || table_->next(tokens_of(sequence), salt_of(sequence.request)) >= 0;
    }
  }
  return likely;
}

void Drafts::take(Running& running, const ScheduledChunk& chunk, std::int32_t accepted) {
  const std::int32_t drafted = chunk.drafts();
  Drafting& drafting = running.drafting;
  const std::int32_t guessed = drafting.are_forced ? 0 : drafted;  // forced ones are always accepted
  const std::int32_t by_table = drafting.by_model ? 0 : guessed;
  const std::int32_t by_model = drafting.by_model ? guessed : 0;
  drafting.table_depth.take(by_table, accepted);
  drafting.model_depth.take(by_model, accepted);
  table_rate_.take(by_table, accepted);
  model_rate_.take(by_model, accepted);
  drafting.drafted_tokens += drafted;
  drafting.accepted_tokens += accepted;
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
