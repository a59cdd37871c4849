#include "grammar/text_automaton.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "base/error.h"

namespace rocmforge {
namespace {

constexpr std::size_t most_states = 1000, most_counted_states = 3000;
constexpr std::uint64_t without_end = std::numeric_limits<std::uint64_t>::max();

std::vector<std::vector<std::int32_t>> reversed(const std::vector<std::vector<std::int32_t>>& targets) {
  std::vector<std::vector<std::int32_t>> sources(targets.size());
  for (std::size_t i = 0; i < targets.size(); ++i) {
    for (const std::int32_t target : targets[i]) {
      sources[static_cast<std::size_t>(target)].push_back(static_cast<std::int32_t>(i));
    }
  }
  return sources;
}

/// The number of characters from each place to the nearest end; `without_end` where none is reached.
std::vector<std::uint64_t> shortest_ways(const std::vector<std::vector<std::int32_t>>& targets,
                                         const std::vector<bool>& ends) {
  const auto sources = reversed(targets);
  std::vector<std::uint64_t> shortest(targets.size(), without_end);
  std::vector<std::int32_t> reached;
  for (std::size_t i = 0; i < targets.size(); ++i) {
    if (ends[i]) {
      shortest[i] = 0;
      reached.push_back(static_cast<std::int32_t>(i));
    }
  }
  for (std::size_t i = 0; i < reached.size(); ++i) {
    for (const std::int32_t source : sources[static_cast<std::size_t>(reached[i])]) {
      if (shortest[static_cast<std::size_t>(source)] == without_end) {
        shortest[static_cast<std::size_t>(source)] = shortest[static_cast<std::size_t>(reached[i])] + 1;
        reached.push_back(source);
      }
    }
  }
  return shortest;
}

}  // namespace

/// From each state to the wanted texts' ends.
struct TextAutomaton::Distances {
  std::vector<bool> ends;
  std::vector<std::uint64_t> shortest, longest;
};

/// A state and the number of characters before it, as far as that matters.
struct TextAutomaton::Counted {
  std::int32_t state = 0;
  std::uint64_t count = 0;  ///< without_end: a text may end at any of its further ends
  bool ends = false;
  std::vector<std::pair<std::int32_t, std::size_t>> next{};  ///< number, class of characters
};

TextAutomaton::TextAutomaton(const TextNfa& languages, const std::vector<CodeRange>& alphabet, WorkBudget& budget)
    : budget_(budget) {
  split(languages, alphabet);
  build(languages);
}

/// Makes the classes of characters: intervals between the bounds of all ranges, joined where the same ranges hold them.
void TextAutomaton::split(const TextNfa& languages, const std::vector<CodeRange>& alphabet) {
  std::set<char32_t> cuts;
  std::map<char32_t, std::vector<std::pair<std::int32_t, bool>>> changes;
  std::int32_t number = 0;
  for (const std::vector<CodeRange>& ranges : languages.characters()) {
    for (const CodeRange& range : ranges) {
      changes[range.first].emplace_back(number, true);
      changes[range.last + 1].emplace_back(number, false);
      cuts.insert({range.first, range.last + 1});
    }
    ++number;
  }
  for (const CodeRange& range : alphabet) {
    cuts.insert({range.first, range.last + 1});
  }
  std::map<std::set<std::int32_t>, std::vector<CodeRange>> classes;
  std::set<std::int32_t> inside;
  std::size_t in_alphabet = 0;
  for (auto cut = cuts.begin(); cut != cuts.end() && std::next(cut) != cuts.end(); ++cut) {
    for (const auto& [changed, begins] : changes[*cut]) {
      begins ? void(inside.insert(changed)) : void(inside.erase(changed));
    }
    while (in_alphabet < alphabet.size() && alphabet[in_alphabet].last < *cut) {
      ++in_alphabet;
    }
    budget_.spend(1 + inside.size());
    if (in_alphabet < alphabet.size() && alphabet[in_alphabet].first <= *cut) {
      classes[inside].push_back({*cut, *std::next(cut) - 1});
    }
  }
  for (auto& [key, ranges] : classes) {
    classes_.push_back(normalize(std::move(ranges)));
  }
  std::erase_if(classes_, [](const std::vector<CodeRange>& ranges) { return ranges.empty(); });  // surrogates
}

void TextAutomaton::build(const TextNfa& languages) {
  std::map<TextNfa::Places, std::int32_t> numbers;
  std::vector<TextNfa::Places> sets;
  const auto number_of = [&](TextNfa::Places places) {
    if (const auto known = numbers.find(places); known != numbers.end()) {
      return known->second;
    }
    if (sets.size() == most_states) {
      is_cut_ = true;
      return -1;
    }
    states_.push_back({languages.accepted(places), {}});
    sets.push_back(places);
    return numbers.emplace(std::move(places), static_cast<std::int32_t>(sets.size()) - 1).first->second;
  };
  number_of(languages.start());
  for (std::size_t i = 0; i < sets.size(); ++i) {
    for (const std::vector<CodeRange>& characters : classes_) {
      const std::int32_t next = number_of(languages.step(sets[i], characters.front().first));
      states_[i].next.push_back(next);
    }
  }
}

std::vector<TextAutomaton::Languages> TextAutomaton::combinations() const {
  std::set<Languages> all;
  for (const State& state : states_) {
    all.insert(state.languages);
  }
  return {all.begin(), all.end()};
}

TextAutomaton::Distances TextAutomaton::distances(const Wanted& wanted) const {
  Distances found;
  std::vector<std::vector<std::int32_t>> targets(states_.size());
  for (std::size_t i = 0; i < states_.size(); ++i) {
    found.ends.push_back(wanted(states_[i].languages));
    const std::set<std::int32_t> next(states_[i].next.begin(), states_[i].next.end());
    std::ranges::copy_if(next, std::back_inserter(targets[i]), [](std::int32_t target) { return target >= 0; });
    budget_.spend(1 + states_[i].next.size());
  }
  found.shortest = shortest_ways(targets, found.ends);
  // The longest way of a state is known when those of all its targets are; around a circle it never is.
  const auto sources = reversed(targets);
  std::vector<std::size_t> waiting(states_.size());
  std::vector<std::int32_t> known;
  found.longest.assign(states_.size(), without_end);
  for (std::size_t i = 0; i < states_.size(); ++i) {
    waiting[i] = static_cast<std::size_t>(std::ranges::count_if(
        targets[i], [&](std::int32_t target) { return found.shortest[static_cast<std::size_t>(target)] != without_end; }));
    if (waiting[i] == 0 && found.ends[i]) {
      known.push_back(static_cast<std::int32_t>(i));
    }
  }
  for (std::size_t i = 0; i < known.size(); ++i) {
    const auto state = static_cast<std::size_t>(known[i]);
    std::uint64_t longest = 0;
    for (const std::int32_t target : targets[state]) {
      if (found.shortest[static_cast<std::size_t>(target)] != without_end) {
        longest = std::max(longest, found.longest[static_cast<std::size_t>(target)] + 1);
      }
    }
    found.longest[state] = longest;
    for (const std::int32_t source : sources[state]) {
      if (--waiting[static_cast<std::size_t>(source)] == 0) {
        known.push_back(source);
      }
    }
  }
  return found;
}

/// The states with the number of characters before them, shorter texts first. States from which no text may end are left
/// out.
std::vector<TextAutomaton::Counted> TextAutomaton::counted(const Distances& distances, std::uint64_t minimum,
                                                           std::uint64_t maximum, bool& is_cut) const {
  std::vector<Counted> all;
  std::map<std::pair<std::int32_t, std::uint64_t>, std::int32_t> numbers;
  const auto number_of = [&](std::int32_t state, std::uint64_t count) {
    const std::uint64_t shortest = distances.shortest[static_cast<std::size_t>(state)];
    const std::uint64_t longest = distances.longest[static_cast<std::size_t>(state)];
    if (shortest == without_end || (count != without_end && (shortest > maximum || count > maximum - shortest))) {
      return -1;
    }
    if (count >= minimum &&
        (maximum == without_end || count == without_end || (longest <= maximum && count <= maximum - longest))) {
      count = without_end;
    }
    const auto known = numbers.find({state, count});
    if (known != numbers.end()) {
      return known->second;
    }
    if (all.size() == most_counted_states) {
      is_cut = true;
      return -1;
    }
    const bool ends = distances.ends[static_cast<std::size_t>(state)] && (count == without_end || count >= minimum);
    all.push_back({state, count, ends});
    numbers.emplace(std::pair(state, count), static_cast<std::int32_t>(all.size()) - 1);
    return static_cast<std::int32_t>(all.size()) - 1;
  };
  number_of(0, 0);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::vector<std::int32_t>& next = states_[static_cast<std::size_t>(all[i].state)].next;
    for (std::size_t one = 0; one < next.size(); ++one) {
      const std::int32_t number =
          next[one] < 0 ? -1 : number_of(next[one], all[i].count == without_end ? without_end : all[i].count + 1);
      if (number >= 0) {
        all[i].next.emplace_back(number, one);
      }
    }
    std::ranges::sort(all[i].next);
    budget_.spend(1 + 4 * next.size());
  }
  return all;
}

std::optional<GrammarNode> TextAutomaton::write(const Wanted& wanted, std::uint64_t minimum, std::uint64_t maximum,
                                                std::string_view name, JsonGrammar& json) const {
  bool is_cut = is_cut_;
  const std::vector<Counted> all = counted(distances(wanted), minimum, maximum, is_cut);
  std::vector<std::vector<std::int32_t>> targets(all.size());
  std::vector<bool> ends(all.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    ends[i] = all[i].ends;
    for (const auto& [number, characters] : all[i].next) {
      targets[i].push_back(number);
    }
  }
  const std::vector<std::uint64_t> shortest = shortest_ways(targets, ends);
  if (all.empty() || shortest[0] == without_end) {
    if (is_cut) {
      throw Error(fmt::format("takes more than {} states to tell the texts apart", most_states));
    }
    return std::nullopt;
  }
  std::vector<std::size_t> numbers(all.size());  // of the states from which some text ends
  std::vector<AutomatonState> states;
  for (std::size_t i = 0; i < all.size(); ++i) {
    numbers[i] = states.size();
    if (shortest[i] != without_end) {
      states.push_back({.ends = all[i].ends});
    }
  }
  for (std::size_t i = 0; i < all.size(); ++i) {
    for (auto one = all[i].next.begin(); shortest[i] != without_end && one != all[i].next.end();) {
      const auto target = static_cast<std::size_t>(one->first);
      std::vector<CodeRange> ranges;
      for (; one != all[i].next.end() && static_cast<std::size_t>(one->first) == target; ++one) {
        ranges.insert(ranges.end(), classes_[one->second].begin(), classes_[one->second].end());
      }
      budget_.spend(4 + ranges.size());
      if (shortest[target] != without_end) {
        states[numbers[i]].edges.emplace_back(json.characters(normalize(std::move(ranges))), numbers[target]);
      }
    }
  }
  return json.grammar().add_rule(name, json.grammar().automaton(states));
}

}  // namespace rocmforge
