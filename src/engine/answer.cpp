#include "engine/answer.h"

#include <algorithm>
#include <bit>
#include <new>
#include <utility>

#include "base/error.h"

namespace rocmforge {

namespace {

/// Whether the tokens of `prompt` have no text (such as BOS alone), so that an answer to it begins a text.
bool shows_nothing(const std::vector<std::int32_t>& prompt, const Tokenizer& tokenizer) {
  return std::ranges::all_of(prompt, [&](std::int32_t token) { return tokenizer.token_bytes(token).empty(); });
}

/// A constraint decides by itself where its text may end.
std::vector<std::int32_t> end_tokens(const Request& request, const Tokenizer* tokenizer) {
  if (request.constraint != nullptr || request.sampling.min_tokens == 0) {
    return {};
  }
  std::vector<std::int32_t> tokens = request.stop_tokens;
  if (tokenizer != nullptr) {
    const std::vector<std::int32_t>& own = tokenizer->end_of_generation_ids();
    tokens.insert(tokens.end(), own.begin(), own.end());
  }
  return tokens;
}

double seconds(Answer::Clock::duration duration) { return std::chrono::duration<double>(duration).count(); }

}  // namespace

Answer::Answer(const Request& request, std::shared_ptr<const Tokenizer> tokenizer)
    : sampler_(request.sampling, {end_tokens(request, tokenizer.get()), tokenizer}),
      constraint_(request.constraint != nullptr ? request.constraint->clone() : nullptr),
      tokenizer_(tokenizer),
      tokens_before_stops_(request.sampling.min_tokens),
      stop_(request.stop),
      submitted_(Clock::now()),
      last_token_(submitted_) {
  if (tokenizer != nullptr) {
    const bool at_start = shows_nothing(request.prompt, *tokenizer);
    decoder_.emplace(std::move(tokenizer), /*special=*/false, at_start);
  }
}

bool Answer::prepare_mask(std::uint64_t units, std::int32_t vocab) {
  if (mask_is_settled()) {
    return true;
  }
  try {
    mask_.resize(static_cast<std::size_t>(sample_mask_words(vocab)));
    mask_is_ready_ = constraint_->allowed_within(units, mask_);
  } catch (const Error& error) {
    failure_ = error.what();
  } catch (const std::bad_alloc&) {
    failure_ = no_memory;
  }
  return mask_is_settled();
}

std::uint64_t Answer::take_work() {
  const std::uint64_t work = constraint_ != nullptr ? constraint_->work() : 0;
  return work - std::exchange(taken_work_, work) + std::exchange(draft_work_, 0);
}

bool Answer::begin_drafts(std::uint64_t units, std::int32_t vocab) {
  ahead_.reset();
  draft_masks_.clear();
  draft_units_ = units;
  return prepare_mask(units, vocab) && failure_.empty();
}

std::span<const std::uint32_t> Answer::newest_mask() const {
  return draft_masks_.empty() ? std::span(mask_) : std::span(draft_masks_).last(mask_.size());
}

std::int32_t Answer::forced_token() const {
  std::int32_t token = -1;
  const std::span<const std::uint32_t> mask = newest_mask();
  for (std::size_t word = 0; word < mask.size(); ++word) {
    if (mask[word] != 0) {
      if (token >= 0 || !std::has_single_bit(mask[word])) {
        return -1;
      }
      token = static_cast<std::int32_t>(word) * 32 + std::countr_zero(mask[word]);
    }
  }
  return token;
}

// The drafts are found with a copy of the constraint, so that whatever happens the answer's own one stays where it is.
bool Answer::add_draft(std::int32_t token) {
  const auto place = static_cast<std::size_t>(token);
  const bool is_allowed = (newest_mask()[place / 32] >> place % 32 & 1u) != 0;
  if (!is_allowed || (tokenizer_ != nullptr && tokenizer_->is_end_of_generation(token)) ||
      (ahead_ != nullptr && ahead_->finished())) {
    return false;
  }
  if (ahead_ == nullptr) {
    ahead_ = constraint_->clone();
  }
  const std::uint64_t before = ahead_->work();
  bool is_ready = false;
  draft_masks_.resize(draft_masks_.size() + mask_.size());
  try {
    ahead_->accept(token);
    is_ready = ahead_->allowed_within(draft_units_, std::span(draft_masks_).last(mask_.size()));
  } catch (const Error&) {  // told when it happens to the answer itself
  }
  const std::uint64_t work = ahead_->work() - before;
  draft_work_ += work;
  draft_units_ -= std::min(draft_units_, work);
  if (!is_ready) {
    draft_masks_.resize(draft_masks_.size() - mask_.size());
    draft_units_ = 0;
  }
  return is_ready;
}

SampleTokens::Row Answer::next(const Sequence& sequence, std::int32_t vocab, BatchPlan& step) {
  const std::size_t ahead = open_draws_++;
  const std::span<const std::int32_t> history(sequence.tokens);
  const std::size_t known = std::min(static_cast<std::size_t>(sequence.length()) + ahead, history.size());
  SampleTokens::Row row = sampler_.next(history.first(known), step.adjustments, ahead);
  if (constraint_ != nullptr && failure_.empty()) {
    check(mask_is_ready_ && draft_masks_.size() >= ahead * mask_.size(), "a constrained draw has its mask");
    row.mask = step.num_masks();
    const std::span<const std::uint32_t> mask =
        ahead == 0 ? std::span<const std::uint32_t>(mask_)
                   : std::span<const std::uint32_t>(draft_masks_).subspan((ahead - 1) * mask_.size(), mask_.size());
    std::ranges::copy(mask, step.add_mask(static_cast<std::int32_t>(sample_mask_words(vocab))).begin());
  }
  return row;
}

void Answer::settle(std::size_t draws, std::size_t kept, float probability) {
  open_draws_ -= draws;
  sampler_.advance(kept, probability);
}

void Answer::started() {
  if (!started_) {
    started_ = Clock::now();
  }
}

void Answer::computed() {
  last_token_ = Clock::now();
  if (!first_token_) {
    first_token_ = last_token_;
  }
}

std::string Answer::add(std::int32_t token) {
  if (constraint_ != nullptr) {
    mask_is_ready_ = false;
    try {
      constraint_->accept(token);
    } catch (const Error& error) {
      failure_ = error.what();
    } catch (const std::bad_alloc&) {
      failure_ = no_memory;
    }
  }
  if (!decoder_) {
    return {};
  }
  std::string text = decoder_->add(token);
  return tokens_before_stops_-- > 0 ? text : stop_.add(text);
}

std::string Answer::finish() {
  std::string text = decoder_ ? stop_.add(decoder_->finish()) : std::string();
  return text + stop_.finish();
}

void Answer::take_prompt(const ScheduledChunk& chunk, const ChunkResult& result, ThreadPool& pool) {
  if (const PositionRange scored = chunk.scored(); scored.count() > 0) {
    const auto count = static_cast<std::size_t>(scored.count());
    const std::size_t vocab = result.scored_logits.size() / count;
    const std::size_t begin = prompt_logprobs_.size();
    prompt_logprobs_.resize(begin + count);
    pool.parallel_for(scored.count(), 1, [&](std::int64_t first, std::int64_t end) {
      for (auto i = static_cast<std::size_t>(first); i < static_cast<std::size_t>(end); ++i) {
        const std::int32_t token = chunk.sequence->tokens[static_cast<std::size_t>(scored.first) + i + 1];
        prompt_logprobs_[begin + i] =
            token_logprobs(result.scored_logits.subspan(i * vocab, vocab), token, chunk.sequence->request.prompt_logprobs);
      }
    });
  }
  if (const std::int32_t pooled = chunk.pooled().count(); pooled > 0) {
    const std::size_t width = result.hidden.size() / static_cast<std::size_t>(pooled);
    hidden_sum_.resize(width, 0.0);
    for (std::size_t i = 0; i < result.hidden.size(); ++i) {
      hidden_sum_[i % width] += double{result.hidden[i]};
    }
    hidden_rows_ += pooled;
  }
}

std::vector<TokenLogprobs> Answer::prompt_logprobs() { return std::exchange(prompt_logprobs_, {}); }

std::vector<float> Answer::embedding() const {
  std::vector<float> pooled(hidden_sum_.size());
  std::ranges::transform(hidden_sum_, pooled.begin(), [this](double sum) { return static_cast<float>(sum / hidden_rows_); });
  return pooled;
}

bool Answer::stopped() const { return stop_.stopped() || (constraint_ != nullptr && constraint_->finished()); }

double Answer::queue_seconds() const { return seconds(started_.value_or(submitted_) - submitted_); }

double Answer::prompt_seconds() const { return seconds(first_token_.value_or(submitted_) - submitted_); }

double Answer::decode_seconds() const { return seconds(last_token_ - first_token_.value_or(submitted_)); }

double Answer::age_seconds() const { return seconds(Clock::now() - submitted_); }

}  // namespace rocmforge
