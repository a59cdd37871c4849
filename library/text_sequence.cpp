#include "text_sequence.h"

#include <fmt/format.h>

#include <utility>

#include "usage_error.h"

namespace rocmforge {

std::span<const float> TextSequence::append(std::span<const std::int32_t> tokens) {
  if (tokens.empty()) {
    throw app::UsageError("there are no tokens");
  }
  std::vector<std::int32_t> all = tokens_;
  all.insert(all.end(), tokens.begin(), tokens.end());
  logits_ = model_->logits(all);
  tokens_ = std::move(all);
  return logits_;
}

std::int32_t TextSequence::sample() {
  if (logits_.empty()) {
    throw app::UsageError("the sequence has no logits: append tokens first");
  }
  return sampler_.sample(logits_, tokens_);
}

void TextSequence::truncate(std::size_t count) {
  if (count > tokens_.size()) {
    throw app::UsageError(fmt::format("the sequence has {} tokens, not {}", tokens_.size(), count));
  }
  tokens_.resize(count);
  logits_.clear();
}

}  // namespace rocmforge
