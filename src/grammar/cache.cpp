#include "grammar/cache.h"

#include <algorithm>

#include "base/error.h"
#include "grammar/gbnf_parser.h"

namespace rocmforge {

template <class IsIt>
std::shared_ptr<GrammarMatcher> GrammarCache::find(IsIt is_it) {
  std::erase_if(known_, [](const Known& one) { return one.matcher.expired(); });
  for (const Known& one : known_) {
    if (std::shared_ptr<GrammarMatcher> matcher = one.matcher.lock(); matcher != nullptr && is_it(one, *matcher)) {
      keep(matcher);
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
  for (const Known& one : known_) {
    if (const auto matcher = one.matcher.lock()) {
      bytes += matcher->memory_bytes() + one.text.capacity();
    }
  }
  return bytes;
}

std::shared_ptr<GrammarMatcher> GrammarCache::get(std::string_view gbnf, WorkBudget& budget) {
  {
    const std::lock_guard lock(mutex_);
    if (auto known = find([&](const Known& one, const GrammarMatcher&) { return !gbnf.empty() && one.text == gbnf; })) {
      return known;
    }
  }
  WorkBudget reading(grammar_compile_units, "grammar: reading it", &budget);
  return get(parse_gbnf(gbnf, reading), gbnf.size() <= longest_known_text ? gbnf : "", budget);
}

std::shared_ptr<GrammarMatcher> GrammarCache::get(Grammar grammar, WorkBudget& budget) {
  return get(std::move(grammar), "", budget);
}

std::shared_ptr<GrammarMatcher> GrammarCache::get(Grammar grammar, std::string_view text, WorkBudget& budget) {
  const auto is_same = [](const Grammar& other) {
    return [&other](const Known&, const GrammarMatcher& matcher) { return matcher.grammar() == other; };
  };
  std::shared_ptr<const TokenTrie> trie;
  {
    const std::lock_guard lock(mutex_);
    if (std::shared_ptr<GrammarMatcher> known = find(is_same(grammar))) {
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
  if (std::shared_ptr<GrammarMatcher> known = find(is_same(matcher->grammar()))) {
    return known;  // another thread has compiled it meanwhile
  }
  known_.push_back({matcher, std::string(text)});
  keep(matcher);
  return matcher;
}

}  // namespace rocmforge
