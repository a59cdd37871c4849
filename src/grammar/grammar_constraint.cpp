#include "grammar/grammar_constraint.h"

#include "base/error.h"

namespace rocmforge {
namespace {

class GrammarConstraint final : public TokenConstraint {
 public:
  explicit GrammarConstraint(std::shared_ptr<GrammarMatcher> matcher)
      : trie_(matcher->trie()), cursor_(std::move(matcher)) {}

  bool allowed_within(std::uint64_t units, std::span<std::uint32_t> mask) override {
    return cursor_.allowed_within(units, mask);
  }
  [[nodiscard]] std::uint64_t work() const override { return cursor_.work(); }

  [[nodiscard]] bool finished() const override { return ended_ || cursor_.at_end(); }

  [[nodiscard]] std::unique_ptr<TokenConstraint> clone() const override {
    return std::make_unique<GrammarConstraint>(*this);
  }
  void go_to(const TokenConstraint& earlier) override { *this = dynamic_cast<const GrammarConstraint&>(earlier); }

 private:
  void advance(std::int32_t token) override {
    if (trie_->is_end(token)) {
      check(cursor_.may_end(), "the text may not end here");
      ended_ = true;
      return;
    }
    check(token >= 0 && token < trie_->size() && !trie_->bytes(token).empty(), "the token is no part of constrained texts");
    check(!ended_ && cursor_.accept(trie_->bytes(token)), "the token was allowed");
  }

  std::shared_ptr<const TokenTrie> trie_;
  GrammarMatcher::Cursor cursor_;
  bool ended_ = false;
};

}  // namespace

std::unique_ptr<TokenConstraint> make_grammar_constraint(std::shared_ptr<GrammarMatcher> matcher) {
  check(matcher != nullptr, "a grammar's constraint needs its matcher");
  return std::make_unique<GrammarConstraint>(std::move(matcher));
}

}  // namespace rocmforge
