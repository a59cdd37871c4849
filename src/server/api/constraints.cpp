#include "server/api/constraints.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "grammar/grammar_constraint.h"
#include "server/api/api_error.h"
#include "server/api/asked_grammar.h"
#include "server/reading.h"

namespace rocmforge {
std::shared_ptr<GrammarMatcher> GrammarCache::find(const std::string& gbnf) {
  std::erase_if(known_, [](const Known& one) { return one.matcher.expired(); });
  const auto found = std::ranges::find(known_, gbnf, &Known::gbnf);
  return found == known_.end() ? nullptr : found->matcher.lock();
}

/// Keeps it as the last used one, and drops the least recently used ones beyond the limits.
void GrammarCache::keep(std::shared_ptr<GrammarMatcher> matcher) {
  kept_.remove(matcher);
  kept_.push_front(std::move(matcher));
  std::size_t bytes = 0, count = 0;
  auto place = kept_.begin();
  for (; place != kept_.end() && count < most_grammars && bytes <= most_bytes; ++place, ++count) {
    bytes += (*place)->memory_bytes();
  }
  if (bytes > most_bytes && count > 1) {
    --place;
  }
  kept_.erase(place, kept_.end());
}

std::size_t GrammarCache::memory_bytes() const {
  const std::lock_guard lock(mutex_);
  std::size_t bytes = 0;
  for (const Known& one : known_) {
    if (const auto matcher = one.matcher.lock()) {
      bytes += matcher->memory_bytes() + one.gbnf.size();
    }
  }
  return bytes;
}

std::shared_ptr<GrammarMatcher> GrammarCache::get(const std::string& gbnf, WorkBudget& budget) {
  std::shared_ptr<const TokenTrie> trie;
  {
    const std::lock_guard lock(mutex_);
    if (std::shared_ptr<GrammarMatcher> known = find(gbnf)) {
      keep(known);
      return known;
    }
    if (tokenizer_ == nullptr) {
      throw Error("the model's file has no tokenizer");
    }
    if (trie_ == nullptr) {
      trie_ = std::make_shared<const TokenTrie>(*tokenizer_);
    }
    trie = trie_;
  }
  WorkBudget compiling(grammar_compile_units, "grammar: compiling it", &budget);
  std::shared_ptr<GrammarMatcher> matcher = GrammarMatcher::create(gbnf, std::move(trie), compiling);  // may take a while
  const std::lock_guard lock(mutex_);
  if (std::shared_ptr<GrammarMatcher> known = find(gbnf)) {
    matcher = std::move(known);  // another thread has compiled it meanwhile
  } else {
    known_.push_back({gbnf, matcher});
  }
  keep(matcher);
  return matcher;
}

std::shared_ptr<GrammarMatcher> held_grammar(const std::string& gbnf, GrammarCache& grammars, Reading& reading) {
  std::shared_ptr<GrammarMatcher> matcher = grammars.get(gbnf, reading.budget);
  reading.hold_to_end(static_cast<std::int64_t>(matcher->memory_bytes() + gbnf.size()));
  return matcher;
}

std::shared_ptr<const TokenConstraint> read_constraint(Fields& fields, GrammarCache& grammars, Reading& reading,
                                                       const GrammarTrigger* trigger,
                                                       const std::optional<AskedFormat>& own) {
  const std::optional<AskedGrammar> asked = read_asked_grammar(fields, reading, own);
  if (!asked) {
    return nullptr;
  }
  try {
    auto matcher = held_grammar(asked->gbnf, grammars, reading);
    return trigger != nullptr ? make_lazy_grammar_constraint(std::move(matcher), *trigger)
                              : make_grammar_constraint(std::move(matcher));
  } catch (const Error& error) {
    const std::string mark = asked->field + ": ";
    const std::string problem = error.what();
    throw ApiError(400, problem.starts_with(mark) ? problem : mark + problem, asked->field);
  }
}

}  // namespace rocmforge
