#include "grammar/cache.h"

#include <algorithm>

#include "base/error.h"

namespace rocmforge {

std::shared_ptr<GrammarMatcher> GrammarCache::find(const Grammar& grammar) {
  std::erase_if(known_, [](const std::weak_ptr<GrammarMatcher>& one) { return one.expired(); });
  for (const std::weak_ptr<GrammarMatcher>& one : known_) {
    if (std::shared_ptr<GrammarMatcher> matcher = one.lock(); matcher != nullptr && matcher->grammar() == grammar) {
      return matcher;
    }
  }
  return nullptr;
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
  for (const std::weak_ptr<GrammarMatcher>& one : known_) {
    if (const auto matcher = one.lock()) {
      bytes += matcher->memory_bytes();
    }
  }
  return bytes;
}

std::shared_ptr<GrammarMatcher> GrammarCache::get(Grammar grammar, WorkBudget& budget) {
  std::shared_ptr<const TokenTrie> trie;
  {
    const std::lock_guard lock(mutex_);
    if (std::shared_ptr<GrammarMatcher> known = find(grammar)) {
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
  std::shared_ptr<GrammarMatcher> matcher =
      GrammarMatcher::create(std::move(grammar), std::move(trie), compiling);  // may take a while
  const std::lock_guard lock(mutex_);
  if (std::shared_ptr<GrammarMatcher> known = find(matcher->grammar())) {
    matcher = std::move(known);  // another thread has compiled it meanwhile
  } else {
    known_.push_back(matcher);
  }
  keep(matcher);
  return matcher;
}

}  // namespace rocmforge
