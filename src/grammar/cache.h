#pragma once

#include <cstddef>
#include <list>
#include <memory>
#include <mutex>
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
  /// The bytes of all that are kept or used.
  [[nodiscard]] std::size_t memory_bytes() const;

  static constexpr std::size_t most_grammars = 16, most_bytes = std::size_t{128} << 20;

 private:
  std::shared_ptr<GrammarMatcher> find(const Grammar& grammar);
  void keep(std::shared_ptr<GrammarMatcher> matcher);

  std::shared_ptr<const Tokenizer> tokenizer_;
  mutable std::mutex mutex_;  // guards the members below
  std::shared_ptr<const TokenTrie> trie_;
  std::list<std::weak_ptr<GrammarMatcher>> known_;   ///< that are kept or used
  std::list<std::shared_ptr<GrammarMatcher>> kept_;  ///< latest use first
};

}  // namespace rocmforge
