#include "engine/answer.h"

#include <algorithm>
#include <utility>

namespace rocmforge {

namespace {

/// Whether an answer to `prompt` begins a text: its tokens show nothing (such as BOS alone).
bool shows_nothing(const std::vector<std::int32_t>& prompt, const Tokenizer& tokenizer) {
  return std::ranges::all_of(prompt, [&](std::int32_t token) { return tokenizer.token_bytes(token).empty(); });
}

}  // namespace

Answer::Answer(const Request& request, std::shared_ptr<const Tokenizer> tokenizer)
    : sampler_(request.sampling), stop_(request.stop), submitted_(Clock::now()), last_token_(submitted_) {
  if (tokenizer != nullptr) {
    const bool at_start = shows_nothing(request.prompt, *tokenizer);
    decoder_.emplace(std::move(tokenizer), /*special=*/false, at_start);
  }
}

void Answer::drawn() {
  last_token_ = Clock::now();
  if (!first_token_) {
    first_token_ = last_token_;
  }
}

std::int32_t Answer::sample(std::span<const float> logits, std::span<const std::int32_t> history) {
  const std::int32_t token = sampler_.sample(logits, history);
  drawn();
  return token;
}

std::string Answer::add(std::int32_t token) { return decoder_ ? stop_.add(decoder_->add(token)) : std::string(); }

std::string Answer::finish() {
  std::string text = decoder_ ? stop_.add(decoder_->finish()) : std::string();
  return text + stop_.finish();
}

double Answer::prompt_seconds() const {
  return std::chrono::duration<double>(first_token_.value_or(submitted_) - submitted_).count();
}

double Answer::decode_seconds() const {
  return std::chrono::duration<double>(last_token_ - first_token_.value_or(submitted_)).count();
}

}  // namespace rocmforge
