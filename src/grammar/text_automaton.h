#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/work_budget.h"
#include "grammar/json_grammar.h"
#include "grammar/text_nfa.h"

namespace rocmforge {

/// Tells languages of texts apart: a deterministic automaton over characters (the subset construction), whose states say
/// which languages hold the text. It has a limited number of states; texts that need more are left out.
class TextAutomaton {
 public:
  /// Which of the languages hold a text, by their numbers.
  using Languages = std::vector<bool>;
  using Wanted = std::function<bool(const Languages&)>;

  /// The texts consist of characters of `alphabet` (normalized). `budget` must outlive the object.
  TextAutomaton(const TextNfa& languages, const std::vector<CodeRange>& alphabet, WorkBudget& budget);

  /// Every combination of languages that a text belongs to.
  [[nodiscard]] std::vector<Languages> combinations() const;

  /// The wanted texts of `minimum` to `maximum` characters, for the inside of a JSON string; none where there are none.
  /// Throws Error where none is found within the limits though one may exist.
  std::optional<GrammarNode> write(const Wanted& wanted, std::uint64_t minimum, std::uint64_t maximum, std::string_view name,
                                   JsonGrammar& json) const;

 private:
  struct State {
    Languages languages;
    std::vector<std::int32_t> next;  ///< by class of characters; -1: none
  };
  struct Counted;
  struct Distances;

  void split(const TextNfa& languages, const std::vector<CodeRange>& alphabet);
  void build(const TextNfa& languages);
  [[nodiscard]] Distances distances(const Wanted& wanted) const;
  [[nodiscard]] std::vector<Counted> counted(const Distances& distances, std::uint64_t minimum, std::uint64_t maximum,
                                             bool& is_cut) const;

  WorkBudget& budget_;
  std::vector<std::vector<CodeRange>> classes_;  ///< characters that no language tells apart
  std::vector<State> states_;                    ///< from the start
  bool is_cut_ = false;
};

}  // namespace rocmforge
