#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "base/error.h"
#include "grammar/grammar_constraint.h"

namespace rocmforge {
namespace {

/// The tokens whose bytes occur in the trigger's text, and the trigger's own. Immutable.
struct TriggerTokens {
  std::shared_ptr<const TokenTrie> trie;
  GrammarTrigger trigger;
  std::vector<std::int32_t> parts;
};

std::shared_ptr<const TriggerTokens> find_tokens(std::shared_ptr<const TokenTrie> trie, GrammarTrigger trigger) {
  auto found = std::make_shared<TriggerTokens>();
  for (std::int32_t token = 0; token < trie->size(); ++token) {
    const std::string_view bytes = trie->bytes(token);
    if (!bytes.empty() && trigger.text.find(bytes) != std::string::npos) {
      found->parts.push_back(token);
    }
  }
  found->trie = std::move(trie);
  found->trigger = std::move(trigger);
  return found;
}

bool has_bit(std::span<const std::uint32_t> mask, std::int32_t token) {
  return (mask[static_cast<std::size_t>(token) / 32] >> (token % 32) & 1u) != 0;
}

/// Follows the answer and the call side by side, for as long as the text may become either.
class CallOrAnswer final : public TokenConstraint {
 public:
  CallOrAnswer(std::unique_ptr<TokenConstraint> answer, std::unique_ptr<TokenConstraint> call,
               std::shared_ptr<const TriggerTokens> tokens, std::string mark)
      : answer_(std::move(answer)), call_(std::move(call)), tokens_(std::move(tokens)) {
    now_.at_start = mark.empty();
    now_.mark = std::move(mark);
  }
  CallOrAnswer(const CallOrAnswer& other)
      : TokenConstraint(other),
        answer_(other.answer_ ? other.answer_->clone() : nullptr),
        call_(other.call_ ? other.call_->clone() : nullptr),
        tokens_(other.tokens_),
        now_(other.now_) {}
  CallOrAnswer& operator=(const CallOrAnswer&) = delete;

  bool allowed_within(std::uint64_t units, std::span<std::uint32_t> mask) override {
    if (answer_ == nullptr && now_.is_call) {
      return call_->allowed_within(units, mask);
    }
    if (!find_answer_mask(units)) {
      return false;
    }
    if (now_.is_call) {
      if (!call_->allowed_within(units, mask)) {
        return false;
      }
    } else {
      std::ranges::fill(mask, 0u);
      for (const std::int32_t token : going_on()) {
        mask[static_cast<std::size_t>(token) / 32] |= 1u << (token % 32);
      }
    }
    for (std::size_t i = 0; i < now_.answer_mask.size(); ++i) {
      mask[i] |= now_.answer_mask[i];
    }
    return true;
  }

  [[nodiscard]] std::uint64_t work() const override {
    return dropped_work_ + (answer_ ? answer_->work() : 0) + (call_ ? call_->work() : 0);
  }

  [[nodiscard]] bool finished() const override {
    const bool call_is_open = call_ != nullptr && now_.has_begun && !call_->finished();
    return (answer_ == nullptr || answer_->finished()) && !call_is_open;
  }

  [[nodiscard]] std::unique_ptr<TokenConstraint> clone() const override { return std::make_unique<CallOrAnswer>(*this); }
  void go_to(const TokenConstraint& earlier) override {
    const auto& place = dynamic_cast<const CallOrAnswer&>(earlier);
    bring(answer_, place.answer_.get());
    bring(call_, place.call_.get());
    now_ = place.now_;
  }

 private:
  /// What changes with the text, beside the two constraints.
  struct Position {
    std::string mark{}, tail{};
    std::size_t matched = 0;                   ///< bytes of the trigger
    bool at_start = false;                     ///< a call may begin here
    bool has_begun = false;                    ///< the trigger has begun
    bool is_call = false;                      ///< the trigger is complete
    std::vector<std::uint32_t> answer_mask{};  ///< at this position, once it is known
  };

  void drop(std::unique_ptr<TokenConstraint>& one) {
    dropped_work_ += one == nullptr ? 0 : one->work();
    one.reset();
  }

  /// Brings one of the two constraints to the position of `place`, null where that is null.
  void bring(std::unique_ptr<TokenConstraint>& one, const TokenConstraint* place) {
    if (place == nullptr) {
      drop(one);
    } else if (one != nullptr) {
      one->go_to(*place);
    } else {
      one = place->clone();
      dropped_work_ -= one->work();  // it was counted when the constraint was dropped
    }
  }

  void advance(std::int32_t token) override {
    if (answer_ != nullptr) {
      check(find_answer_mask(std::numeric_limits<std::uint64_t>::max()), "work without an end suffices");
    }
    const bool is_answer = answer_ != nullptr && has_bit(now_.answer_mask, token);
    const bool goes_on = now_.is_call ? may_follow_call(token) : std::ranges::count(going_on(), token) > 0;
    check(is_answer || goes_on, "the token was allowed");
    if (goes_on) {
      advance_call(token);
    } else if (now_.has_begun || now_.at_start) {
      drop(call_);
    }
    if (is_answer) {
      answer_->accept(token);
    } else {
      drop(answer_);
    }
    now_.answer_mask.clear();
    find_start(token);
  }

  /// The tokens that continue the trigger.
  [[nodiscard]] std::vector<std::int32_t> going_on() const {
    std::vector<std::int32_t> list;
    if (call_ == nullptr || now_.is_call || (!now_.at_start && !now_.has_begun)) {
      return list;
    }
    const std::string_view rest = std::string_view(tokens_->trigger.text).substr(now_.matched);
    for (const std::int32_t token : tokens_->parts) {
      if (rest.starts_with(tokens_->trie->bytes(token))) {
        list.push_back(token);
      }
    }
    if (now_.matched == 0) {
      list.insert(list.end(), tokens_->trigger.tokens.begin(), tokens_->trigger.tokens.end());
    }
    return list;
  }

  void advance_call(std::int32_t token) {
    now_.has_begun = true;
    call_->accept(token);
    if (!now_.is_call) {
      now_.matched += tokens_->trie->bytes(token).size();
      now_.is_call = now_.matched == tokens_->trigger.text.size() ||
                     std::ranges::find(tokens_->trigger.tokens, token) != tokens_->trigger.tokens.end();
    }
  }

  /// While the text may still be an answer as well, a token may belong to only one of the two.
  [[nodiscard]] bool may_follow_call(std::int32_t token) {
    if (call_ == nullptr) {
      return false;
    }
    std::vector<std::uint32_t> mask(tokens_->trie->mask_words());
    call_->allowed(mask);
    return has_bit(mask, token);
  }

  [[nodiscard]] bool find_answer_mask(std::uint64_t units) {
    if (answer_ == nullptr || !now_.answer_mask.empty()) {
      return true;
    }
    std::vector<std::uint32_t> mask(tokens_->trie->mask_words());
    if (!answer_->allowed_within(units, mask)) {
      return false;
    }
    now_.answer_mask = std::move(mask);
    return true;
  }

  /// Sees whether the text now ends with the mark behind which the answer begins.
  void find_start(std::int32_t token) {
    now_.at_start = false;
    if (now_.mark.empty() || now_.has_begun) {
      return;
    }
    now_.tail += tokens_->trie->bytes(token);
    now_.at_start = now_.tail.ends_with(now_.mark);
    if (now_.at_start) {
      now_.mark.clear();
    } else if (now_.tail.size() > now_.mark.size()) {
      now_.tail.erase(0, now_.tail.size() - now_.mark.size());
    }
  }

  std::unique_ptr<TokenConstraint> answer_;  ///< null once the text is none
  std::unique_ptr<TokenConstraint> call_;    ///< null once the text is none
  std::shared_ptr<const TriggerTokens> tokens_;
  Position now_;
  std::uint64_t dropped_work_ = 0;  ///< of constraints that are null by now
};

}  // namespace

std::unique_ptr<TokenConstraint> make_call_or_answer(std::unique_ptr<TokenConstraint> answer,
                                                     std::shared_ptr<GrammarMatcher> call, const GrammarTrigger& trigger,
                                                     std::string mark) {
  check(answer != nullptr && call != nullptr, "both are needed");
  auto tokens = find_tokens(call->trie(), trigger);
  return std::make_unique<CallOrAnswer>(std::move(answer), make_lazy_grammar_constraint(std::move(call), trigger),
                                        std::move(tokens), std::move(mark));
}

}  // namespace rocmforge
