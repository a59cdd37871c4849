#include "grammar/thought_budget.h"

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>

#include "base/error.h"

namespace rocmforge {
namespace {

/// Shared by the constraints of one request and its forks.
struct SharedBudget {
  std::shared_ptr<const Tokenizer> tokenizer;
  ThoughtBudget budget;
};

class BoundedThoughts final : public TokenConstraint {
 public:
  BoundedThoughts(std::shared_ptr<const SharedBudget> shared, std::unique_ptr<TokenConstraint> inner)
      : shared_(std::move(shared)), inner_(std::move(inner)) {
    if (shared_->budget.is_open) {
      begin_thoughts();
    }
  }

  void allowed(std::span<std::uint32_t> mask) override {
    if (inner_ != nullptr) {
      inner_->allowed(mask);
    }
    narrow(mask);
  }

  bool allowed_within(std::uint64_t units, std::span<std::uint32_t> mask) override {
    if (inner_ != nullptr && !inner_->allowed_within(units, mask)) {
      return false;
    }
    narrow(mask);
    return true;
  }

  [[nodiscard]] std::uint64_t work() const override { return inner_ == nullptr ? 0 : inner_->work(); }

  void accept(std::int32_t token) override {
    if (inner_ != nullptr) {
      inner_->accept(token);
    }
    switch (place_) {
      case Place::before:
        text_ += bytes(token);
        step_before();
        break;
      case Place::thoughts:
        ++count_;
        step_thoughts(token);
        break;
      case Place::closing:
        step_closing(token);
        break;
      case Place::behind:
        break;
    }
  }

  [[nodiscard]] bool finished() const override { return inner_ != nullptr && inner_->finished(); }

  [[nodiscard]] std::unique_ptr<TokenConstraint> clone() const override {
    auto copy = std::make_unique<BoundedThoughts>(shared_, inner_ == nullptr ? nullptr : inner_->clone());
    copy->place_ = place_;
    copy->text_ = text_;
    copy->count_ = count_;
    copy->closed_ = closed_;
    return copy;
  }

 private:
  enum class Place {
    before,    ///< only blanks so far, or a part of the mark that begins reasoning
    thoughts,  ///< reasoning; text_ is its last text, which may be the start of its end
    closing,   ///< the first `closed_` tokens of the forced end
    behind,
  };

  [[nodiscard]] const ThoughtBudget& budget() const { return shared_->budget; }
  [[nodiscard]] std::string bytes(std::int32_t token) const { return shared_->tokenizer->token_bytes(token, true); }

  /// Keeps only the forced token, if `inner` allows it.
  void narrow(std::span<std::uint32_t> mask) const {
    const auto size = static_cast<std::size_t>(shared_->tokenizer->size());
    check(mask.size() * 32 >= size, "a mask has a bit for every token");
    if (inner_ == nullptr) {
      std::ranges::fill(mask, 0u);
      std::fill_n(mask.begin(), size / 32, ~0u);
      if (size % 32 != 0) {
        mask[size / 32] = (1u << (size % 32)) - 1;
      }
    }
    if (place_ != Place::closing) {
      return;
    }
    const auto token = static_cast<std::size_t>(budget().closing[closed_]);
    if ((mask[token / 32] >> (token % 32) & 1u) != 0) {
      std::ranges::fill(mask, 0u);
      mask[token / 32] = 1u << (token % 32);
    }
  }

  void begin_thoughts() { place_ = count_ >= budget().tokens ? Place::closing : Place::thoughts; }

  void step_before() {
    text_.erase(0, std::min(text_.find_first_not_of(" \t\r\n"), text_.size()));
    if (text_.starts_with(budget().begin)) {
      text_.erase(0, budget().begin.size());
      begin_thoughts();
    } else if (!budget().begin.starts_with(text_)) {
      go_behind();
    }
  }

  void step_thoughts(std::int32_t token) {
    text_ += bytes(token);
    if (text_.find(budget().end) != std::string::npos) {
      go_behind();
      return;
    }
    text_.erase(0, text_.size() - std::min(text_.size(), budget().end.size() - 1));
    begin_thoughts();
  }

  void step_closing(std::int32_t token) {
    if (token != budget().closing[closed_]) {
      closed_ = 0;
      step_thoughts(token);
    } else if (++closed_ == budget().closing.size()) {
      go_behind();
    }
  }

  void go_behind() {
    place_ = Place::behind;
    text_.clear();
  }

  std::shared_ptr<const SharedBudget> shared_;
  std::unique_ptr<TokenConstraint> inner_;
  Place place_ = Place::before;
  std::string text_;
  std::int32_t count_ = 0;
  std::size_t closed_ = 0;
};

}  // namespace

std::unique_ptr<TokenConstraint> make_thought_budget(std::shared_ptr<const Tokenizer> tokenizer, ThoughtBudget budget,
                                                     const TokenConstraint* inner) {
  check(tokenizer != nullptr && !budget.end.empty() && !budget.closing.empty(), "reasoning is ended by something");
  auto shared = std::make_shared<const SharedBudget>(SharedBudget{std::move(tokenizer), std::move(budget)});
  return std::make_unique<BoundedThoughts>(std::move(shared), inner == nullptr ? nullptr : inner->clone());
}

}  // namespace rocmforge
