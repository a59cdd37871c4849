#pragma once

#include <cstddef>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "base/work_budget.h"
#include "chat/conversation.h"
#include "grammar/token_constraint.h"
#include "server/api/fields.h"
#include "tokenizer/tokenizer.h"

namespace rocmforge {

class Reading;
class GrammarMatcher;
class TokenTrie;
struct GrammarTrigger;

/// A cache of compiled grammars: requests often use the same one. A grammar that a request still uses is shared with other
/// requests for it; of the others the last used are kept, up to most_bytes. Thread-safe.
class GrammarCache {
 public:
  /// `tokenizer` may be null: then every grammar is refused.
  explicit GrammarCache(std::shared_ptr<const Tokenizer> tokenizer) : tokenizer_(std::move(tokenizer)) {}
  /// Throws Error for a bad grammar, and what the budget throws. Compiling may take grammar_compile_units of it.
  std::shared_ptr<GrammarMatcher> get(const std::string& gbnf, WorkBudget& budget);
  /// The bytes of all that are kept or used.
  [[nodiscard]] std::size_t memory_bytes() const;

  static constexpr std::size_t most_grammars = 16, most_bytes = std::size_t{128} << 20;

 private:
  /// A grammar that is kept or used. Its text is the key.
  struct Known {
    std::string gbnf;
    std::weak_ptr<GrammarMatcher> matcher;
  };
  std::shared_ptr<GrammarMatcher> find(const std::string& gbnf);
  void keep(std::shared_ptr<GrammarMatcher> matcher);

  std::shared_ptr<const Tokenizer> tokenizer_;
  mutable std::mutex mutex_;  // guards the members below
  std::shared_ptr<const TokenTrie> trie_;
  std::list<Known> known_;
  std::list<std::shared_ptr<GrammarMatcher>> kept_;  ///< latest use first
};

/// The grammar from the cache; its memory is counted for the request until its end. Throws ApiError(503) without memory, and
/// what GrammarCache::get throws.
std::shared_ptr<GrammarMatcher> held_grammar(const std::string& gbnf, GrammarCache& grammars, Reading& reading);

/// Reads the constraint of the answer (read_asked_grammar). Null without one. Throws ApiError(400) with the reason for a
/// grammar or schema that is not supported. With `trigger` the constraint begins after that text. `own`: what the API's own
/// field asks for.
std::shared_ptr<const TokenConstraint> read_constraint(Fields& fields, GrammarCache& grammars, Reading& reading,
                                                       const GrammarTrigger* trigger = nullptr,
                                                       const std::optional<AskedFormat>& own = {});

}  // namespace rocmforge
