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

  bool allowed_within(std::uint64_t units, std::span<std::uint32_t> mask) override {
    if (inner_ != nullptr && !inner_->allowed_within(units, mask)) {
      return false;
    }
    narrow(mask);
    return true;
  }

  [[nodiscard]] std::uint64_t work() const override { return inner_ == nullptr ? 0 : inner_->work(); }

  [[nodiscard]] bool finished() const override { return inner_ != nullptr && inner_->finished(); }

  [[nodiscard]] std::unique_ptr<TokenConstraint> clone() const override {
    auto copy = std::make_unique<BoundedThoughts>(shared_, inner_ == nullptr ? nullptr : inner_->clone());
    copy->now_ = now_;
    return copy;
  }
  void go_to(const TokenConstraint& earlier) override {
    const auto& place = dynamic_cast<const BoundedThoughts&>(earlier);
    if (inner_ != nullptr) {
      inner_->go_to(*place.inner_);
    }
    now_ = place.now_;
  }

 private:
  enum class Place {
    before,    ///< only blanks so far, or a part of the mark that begins reasoning
    thoughts,  ///< reasoning; `text` is its last text, which may be the start of its end
    closing,   ///< the first `closed` tokens of the forced end
    behind,
  };
  struct Position {
    Place place = Place::before;
    std::string text{};
    std::int32_t count = 0;  ///< tokens of reasoning
    std::size_t closed = 0;
  };

  void advance(std::int32_t token) override {
    if (inner_ != nullptr) {
      inner_->accept(token);
    }
    switch (now_.place) {
      case Place::before:
        now_.text += bytes(token);
        step_before();
        break;
      case Place::thoughts:
        ++now_.count;
        step_thoughts(token);
        break;
      case Place::closing:
        step_closing(token);
        break;
      case Place::behind:
        break;
    }
  }

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
    if (now_.place != Place::closing) {
      return;
    }
    const auto token = static_cast<std::size_t>(budget().closing[now_.closed]);
    if ((mask[token / 32] >> (token % 32) & 1u) != 0) {
      std::ranges::fill(mask, 0u);
      mask[token / 32] = 1u << (token % 32);
    }
  }

  void begin_thoughts() { now_.place = now_.count >= budget().tokens ? Place::closing : Place::thoughts; }

  void step_before() {
    now_.text.erase(0, std::min(now_.text.find_first_not_of(" \t\r\n"), now_.text.size()));
    if (now_.text.starts_with(budget().begin)) {
      now_.text.erase(0, budget().begin.size());
      begin_thoughts();
    } else if (!budget().begin.starts_with(now_.text)) {
      go_behind();
    }
  }

  void step_thoughts(std::int32_t token) {
    now_.text += bytes(token);
    if (now_.text.find(budget().end) != std::string::npos) {
      go_behind();
      return;
    }
    now_.text.erase(0, now_.text.size() - std::min(now_.text.size(), budget().end.size() - 1));
    begin_thoughts();
  }

  void step_closing(std::int32_t token) {
    if (token != budget().closing[now_.closed]) {
      now_.closed = 0;
      step_thoughts(token);
    } else if (++now_.closed == budget().closing.size()) {
      go_behind();
    }
  }

  void go_behind() {
    now_.place = Place::behind;
    now_.text.clear();
  }

  std::shared_ptr<const SharedBudget> shared_;
  std::unique_ptr<TokenConstraint> inner_;
  Position now_;
};

}  // namespace

std::unique_ptr<TokenConstraint> make_thought_budget(std::shared_ptr<const Tokenizer> tokenizer, ThoughtBudget budget,
                                                     const TokenConstraint* inner) {
  check(tokenizer != nullptr && !budget.end.empty() && !budget.closing.empty(), "reasoning is ended by something");
  auto shared = std::make_shared<const SharedBudget>(SharedBudget{std::move(tokenizer), std::move(budget)});
  return std::make_unique<BoundedThoughts>(std::move(shared), inner == nullptr ? nullptr : inner->clone());
}

}  // namespace rocmforge
