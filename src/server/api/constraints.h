#pragma once

#include <cstddef>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "base/work_budget.h"
#include "schedule/token_constraint.h"
#include "server/api/fields.h"
#include "tokenizer/tokenizer.h"

namespace rocmforge {

class Exchange;
class GrammarMatcher;
class TokenTrie;
struct GrammarTrigger;

/// The grammars that were asked for last, ready for use: requests tend to come with the same one. What any request still
/// holds is shared with whoever asks for it; beyond that most_bytes are kept. Thread-safe.
class GrammarCache {
 public:
  /// `tokenizer` may be null: then every grammar is refused.
  explicit GrammarCache(std::shared_ptr<const Tokenizer> tokenizer) : tokenizer_(std::move(tokenizer)) {}
  /// Throws Error for a bad grammar, and what the budget throws, of whose units compiling may take grammar_compile_units.
  std::shared_ptr<GrammarMatcher> get(const std::string& gbnf, WorkBudget& budget);
  /// Of all that are kept or in use.
  [[nodiscard]] std::size_t memory_bytes() const;

  static constexpr std::size_t most_grammars = 16, most_bytes = std::size_t{128} << 20;

 private:
  /// A grammar that is kept or in use. Its text is the key.
  struct Known {
    std::string gbnf;
    std::weak_ptr<GrammarMatcher> matcher;
  };
  std::shared_ptr<GrammarMatcher> find(const std::string& gbnf);
  void keep(std::shared_ptr<GrammarMatcher> matcher);

  std::shared_ptr<const Tokenizer> tokenizer_;
  mutable std::mutex mutex_;  // guards what follows
  std::shared_ptr<const TokenTrie> trie_;
  std::list<Known> known_;
  std::list<std::shared_ptr<GrammarMatcher>> kept_;  ///< latest use first
};

/// The grammar from the cache, for a request that holds its memory to the end. Throws ApiError(503) where there is none, and
/// what GrammarCache::get throws.
std::shared_ptr<GrammarMatcher> held_grammar(const std::string& gbnf, GrammarCache& grammars, Exchange& exchange);

/// Reads what the answer is to keep to (read_asked_grammar). Null when it is free. Throws ApiError(400) with the reason for
/// a grammar or schema that can't be kept to. With `trigger` it begins there.
std::shared_ptr<const TokenConstraint> read_constraint(Fields& fields, GrammarCache& grammars, Exchange& exchange,
                                                       const GrammarTrigger* trigger = nullptr);

}  // namespace rocmforge
