#include "engine/dry.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace rocmforge {

Dry::Dry(const SamplingParams& params, std::shared_ptr<const Tokenizer> tokenizer)
    : multiplier_(params.dry_multiplier),
      base_(params.dry_base),
      allowed_length_(static_cast<std::size_t>(params.dry_allowed_length)),
      last_n_(params.dry_last_n),
      tokenizer_(std::move(tokenizer)) {
  for (const std::string& text : params.dry_breakers) {
    breakers_.emplace_back(text);
  }
}

std::span<const Dry::Penalty> Dry::next(std::span<const std::int32_t> history) {
  penalties_.clear();
  look_for_breakers(history);
  const std::size_t size = std::min(history.size(), static_cast<std::size_t>(last_n_));  // -1: more than any history
  const std::size_t most = std::min(history.size() - behind_breaker_, size);
  if (most < allowed_length_ || most == 0) {
    return {};
  }
  const std::span<const std::int32_t> window = history.last(size);
  measure(window, most);
  for (std::size_t end = 1; end < size; ++end) {
    if (lengths_[end] >= allowed_length_) {
      penalties_.push_back({window[end], amount_of(lengths_[end])});
    }
  }
  std::ranges::sort(penalties_, [](const Penalty& a, const Penalty& b) {
    return a.token != b.token ? a.token < b.token : a.amount > b.amount;
  });
  const auto last = std::unique(penalties_.begin(), penalties_.end(),
                                [](const Penalty& a, const Penalty& b) { return a.token == b.token; });
  penalties_.erase(last, penalties_.end());
  std::erase_if(penalties_, [this](const Penalty& penalty) { return holds_breaker(penalty.token); });
  return penalties_;
}

void Dry::look_for_breakers(std::span<const std::int32_t> history) {
  if (breakers_.empty() || tokenizer_ == nullptr) {
    return;
  }
  if (history.size() < seen_ || (seen_ > 0 && history[seen_ - 1] != newest_)) {  // the context was shifted
    seen_ = 0;
    behind_breaker_ = 0;
  }
  for (; seen_ < history.size(); ++seen_) {
    newest_ = history[seen_];
    for (const char byte : tokenizer_->token_bytes(newest_)) {
      for (TextMatch& breaker : breakers_) {
        behind_breaker_ = breaker.add(byte) ? seen_ + 1 : behind_breaker_;
      }
    }
  }
}

bool Dry::holds_breaker(std::int32_t token) const {
  return tokenizer_ != nullptr &&
         std::ranges::any_of(breakers_, [text = tokenizer_->token_bytes(token)](const TextMatch& breaker) {
           return text.find(breaker.text()) != std::string::npos;
         });
}

// lengths_[end] is the number of tokens that stand both before `end` and at the window's end: the Z function (Gusfield 1997)
// of the reversed window. The stretch [begin, matched) of it, counted from the back, is the one known match that reaches
// furthest.
void Dry::measure(std::span<const std::int32_t> window, std::size_t most) {
  const std::size_t size = window.size();
  const auto back = [&](std::size_t i) { return window[size - 1 - i]; };
  lengths_.assign(size, 0);
  const auto length_at = [&](std::size_t i) -> std::size_t& {
    return lengths_[size - i];
  };  // of the reversed window from i on
  std::size_t begin = 0;
  std::size_t matched = 0;
  for (std::size_t i = 1; i < size; ++i) {
    std::size_t length = 0;
    if (i < matched) {
      const std::size_t inside = i - begin;  // at least 1: begin is below i
      length = std::min(length_at(inside), matched - i);
    }
    while (length < most && i + length < size && back(length) == back(i + length)) {
      ++length;
    }
    length_at(i) = length;
    if (i + length > matched) {
      begin = i;
      matched = i + length;
    }
  }
}

float Dry::amount_of(std::size_t length) const {
  constexpr double most = 1e30;  // stays finite in sums of logits
  const double power = std::pow(double{base_}, static_cast<double>(length - allowed_length_));
  return static_cast<float>(std::min(double{multiplier_} * power, most));
}

}  // namespace rocmforge
