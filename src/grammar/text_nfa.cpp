#include "grammar/text_nfa.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/utf8.h"
#include "grammar/pattern_grammar.h"

namespace rocmforge {
namespace {

constexpr std::size_t most_places = 20'000;
constexpr std::uint64_t units_per_place = 4;

bool contains(const std::vector<CodeRange>& ranges, char32_t character) {
  const auto after = std::upper_bound(ranges.begin(), ranges.end(), character,
                                      [](char32_t value, const CodeRange& range) { return value < range.first; });
  return after != ranges.begin() && character <= std::prev(after)->last;
}

}  // namespace

void TextNfa::add_pattern(std::string_view pattern) {
  GrammarBuilder builder(budget_);
  add_language(builder, pattern_search_node(pattern, builder));
}

void TextNfa::add_texts(const std::vector<std::string>& texts) {
  // Without texts the language has none at all, not even the empty one.
  if (texts.empty()) {
    starts_.push_back(static_cast<std::int32_t>(places_.size()));
    places_.push_back({});
    return;
  }
  GrammarBuilder builder(budget_);
  std::vector<GrammarNode> parts;
  for (const std::string& text : texts) {
    parts.push_back(builder.literal(text));
  }
  add_language(builder, builder.choice(parts));
}

void TextNfa::add_lengths(std::uint64_t minimum, std::uint64_t maximum) {
  GrammarBuilder builder(budget_);
  add_language(builder, builder.repeat(builder.characters(complement({})), minimum, maximum));
}

/// A grammar of one rule: each expression comes after its parts.
void TextNfa::add_language(GrammarBuilder& builder, GrammarNode root) {
  const Grammar grammar = builder.finish(root);
  std::vector<Fragment> fragments(grammar.expressions.size());
  for (std::size_t i = 0; i < fragments.size(); ++i) {
    fragments[i] = fragment_of(grammar, grammar.expressions[i], fragments);
    budget_.spend(units_per_place * fragments[i].size());
  }
  const auto body = static_cast<std::size_t>(grammar.rules[static_cast<std::size_t>(grammar.root)].body);
  starts_.push_back(static_cast<std::int32_t>(places_.size()));
  Fragment whole = std::move(fragments[body]);
  whole.back().language = static_cast<std::int32_t>(starts_.size()) - 1;
  const auto offset = static_cast<std::int32_t>(places_.size());
  for (Place place : whole) {
    place.next += place.next < 0 ? 0 : offset;
    place.other += place.other < 0 ? 0 : offset;
    places_.push_back(place);
  }
  if (places_.size() > most_places) {
    throw Error(fmt::format("takes more than {} places in a text", most_places));
  }
}

/// `all`: of the expressions so far.
TextNfa::Fragment TextNfa::fragment_of(const Grammar& grammar, const GrammarExpression& one,
                                       const std::vector<Fragment>& all) {
  using Kind = GrammarExpression::Kind;
  switch (one.kind) {
    case Kind::literal:
      return literal(grammar.text_of(one));
    case Kind::characters: {
      const auto ranges = grammar.ranges_of(one);
      return characters_fragment({ranges.begin(), ranges.end()});
    }
    case Kind::sequence: {
      const auto parts = grammar.parts_of(one);
      Fragment whole = all[static_cast<std::size_t>(parts.front())];
      for (const std::int32_t part : parts.subspan(1)) {
        append(whole, all[static_cast<std::size_t>(part)]);
      }
      return whole;
    }
    case Kind::choice:
      return choice(grammar.parts_of(one), all);
    case Kind::repeat:
      return repeated(all[static_cast<std::size_t>(grammar.parts_of(one).front())], one.minimum, one.maximum);
    case Kind::reference:
    case Kind::automaton:
      break;
  }
  throw LogicError("a pattern's grammar has one rule");
}

TextNfa::Fragment TextNfa::characters_fragment(std::vector<CodeRange> ranges) {
  std::vector<std::pair<char32_t, char32_t>> key;
  for (const CodeRange& range : ranges) {
    key.emplace_back(range.first, range.last);
  }
  const auto [found, is_new] = known_characters_.try_emplace(std::move(key), static_cast<std::int32_t>(characters_.size()));
  if (is_new) {
    characters_.push_back(std::move(ranges));
  }
  return {{.characters = found->second, .next = 1}, {}};
}

TextNfa::Fragment TextNfa::literal(std::string_view text) {
  Fragment all(1);
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = utf8_unit(text, i).length;
    const char32_t character = utf8_code_point(text.substr(i, length));
    append(all, characters_fragment({{character, character}}));
    i += length;
  }
  return all;
}

void TextNfa::append(Fragment& to, const Fragment& part) const {
  if (to.size() + part.size() > most_places) {
    throw Error(fmt::format("takes more than {} places in a text", most_places));
  }
  const auto offset = static_cast<std::int32_t>(to.size());
  to.back().next = offset;
  for (Place place : part) {
    place.next += place.next < 0 ? 0 : offset;
    place.other += place.other < 0 ? 0 : offset;
    to.push_back(place);
  }
  budget_.spend(part.size());
}

TextNfa::Fragment TextNfa::choice(std::span<const std::int32_t> parts, const std::vector<Fragment>& all) const {
  Fragment whole;
  std::vector<std::size_t> ends;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::size_t fork = whole.size();
    whole.push_back({});
    append(whole, all[static_cast<std::size_t>(parts[i])]);
    ends.push_back(whole.size() - 1);
    if (i + 1 < parts.size()) {
      whole[fork].other = static_cast<std::int32_t>(whole.size());
    }
  }
  for (const std::size_t end : ends) {
    whole[end].next = static_cast<std::int32_t>(whole.size());
  }
  whole.push_back({});
  return whole;
}

TextNfa::Fragment TextNfa::repeated(const Fragment& part, std::uint32_t minimum, std::uint32_t maximum) const {
  Fragment all(1);
  for (std::uint32_t i = 0; i < minimum; ++i) {
    append(all, part);
  }
  std::vector<std::size_t> exits;
  const auto begin_option = [&] {
    all.back().next = static_cast<std::int32_t>(all.size());
    exits.push_back(all.size());
    all.push_back({});
    append(all, part);
  };
  if (maximum == GrammarExpression::unbounded) {
    begin_option();
    all.back().next = static_cast<std::int32_t>(exits.front());
  } else {
    for (std::uint32_t i = minimum; i < maximum; ++i) {
      begin_option();
    }
    all.back().next = static_cast<std::int32_t>(all.size());
  }
  for (const std::size_t exit : exits) {
    all[exit].other = static_cast<std::int32_t>(all.size());
  }
  all.push_back({});
  return all;
}

TextNfa::Places TextNfa::closure(const std::vector<std::int32_t>& from) const {
  Places found;
  std::vector<bool> seen(places_.size());
  std::vector<std::int32_t> pending;
  const auto reach = [&](std::int32_t place) {
    if (place >= 0 && !seen[static_cast<std::size_t>(place)]) {
      seen[static_cast<std::size_t>(place)] = true;
      pending.push_back(place);
    }
  };
  std::ranges::for_each(from, reach);
  std::size_t steps = 0;
  while (!pending.empty()) {
    const std::int32_t number = pending.back();
    const Place& place = places_[static_cast<std::size_t>(number)];
    pending.pop_back();
    ++steps;
    if (place.characters >= 0 || place.language >= 0) {
      found.push_back(number);
    }
    if (place.characters < 0) {
      reach(place.next);
      reach(place.other);
    }
  }
  budget_.spend(20 + 4 * steps + places_.size() / 32);
  std::ranges::sort(found);
  return found;
}

TextNfa::Places TextNfa::step(const Places& places, char32_t character) const {
  std::vector<std::int32_t> next;
  for (const std::int32_t number : places) {
    const Place& place = places_[static_cast<std::size_t>(number)];
    if (place.characters >= 0 && contains(characters_[static_cast<std::size_t>(place.characters)], character)) {
      next.push_back(place.next);
    }
  }
  budget_.spend(2 * places.size());
  return closure(next);
}

std::vector<bool> TextNfa::accepted(const Places& places) const {
  std::vector<bool> languages(starts_.size());
  for (const std::int32_t number : places) {
    if (const std::int32_t language = places_[static_cast<std::size_t>(number)].language; language >= 0) {
      languages[static_cast<std::size_t>(language)] = true;
    }
  }
  return languages;
}

std::vector<bool> TextNfa::matches(std::string_view text) const {
  Places places = start();
  for (std::size_t i = 0; i < text.size() && !places.empty();) {
    const std::size_t length = utf8_unit(text, i).length;
    places = step(places, utf8_code_point(text.substr(i, length)));
    i += length;
  }
  return accepted(places);
}

}  // namespace rocmforge
