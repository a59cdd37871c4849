#pragma once

#include <cstddef>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include "base/work_budget.h"
#include "grammar/grammar_matcher.h"
#include "tokenizer/tokenizer.h"

namespace rocmforge {

/// A cache of compiled grammars: requests often use the same one. A grammar that is still used elsewhere is shared with all
/// who ask for it; of the others the last used are kept, up to most_bytes. Thread-safe.
class GrammarCache {
 public:
  /// `tokenizer` may be null: then every grammar is refused.
  explicit GrammarCache(std::shared_ptr<const Tokenizer> tokenizer) : tokenizer_(std::move(tokenizer)) {}
  /// Throws the exceptions of GrammarMatcher::create. Compiling may take grammar_compile_units of the budget.
  std::shared_ptr<GrammarMatcher> get(Grammar grammar, WorkBudget& budget);
  /// The same for a text in GBNF. A text of at most longest_known_text bytes is parsed only if it is not that of a known
  /// grammar. Throws the exceptions of parse_gbnf too; parsing may also take grammar_compile_units.
  std::shared_ptr<GrammarMatcher> get(std::string_view gbnf, WorkBudget& budget);
  /// The bytes of all that are kept or used.
  [[nodiscard]] std::size_t memory_bytes() const;

  static constexpr std::size_t most_grammars = 16, most_bytes = std::size_t{128} << 20;
  static constexpr std::size_t longest_known_text = std::size_t{64} << 10;

 private:
  struct Known {
    std::weak_ptr<GrammarMatcher> matcher;
    std::string text{};  ///< from which it was read; "" for none
  };

  /// The first known grammar of which `is_it` holds, as the last used one; null without one. Under the lock.
  template <class IsIt>
  std::shared_ptr<GrammarMatcher> find(IsIt is_it);
  std::shared_ptr<GrammarMatcher> get(Grammar grammar, std::string_view text, WorkBudget& budget);
  void keep(std::shared_ptr<GrammarMatcher> matcher);

  std::shared_ptr<const Tokenizer> tokenizer_;
  mutable std::mutex mutex_;  // guards the members below
  std::shared_ptr<const TokenTrie> trie_;
  std::list<Known> known_;                           ///< that are kept or used
  std::list<std::shared_ptr<GrammarMatcher>> kept_;  ///< latest use first
};

}  // namespace rocmforge
