#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/work_budget.h"
#include "grammar/builder.h"

namespace rocmforge {

/// Languages of texts, as one automaton over Unicode characters (K. Thompson, "Regular Expression Search Algorithm", 1968).
/// All of them read a text at the same time. Throws Error where they take too many places.
class TextNfa {
 public:
  /// Places that wait for a character or end a language: ascending, each once.
  using Places = std::vector<std::int32_t>;

  /// `budget` must outlive the object; every call throws its exceptions.
  explicit TextNfa(WorkBudget& budget) : budget_(budget) {}

  /// Adds the texts that a pattern finds something in. Throws Error like json_pattern().
  void add_pattern(std::string_view pattern);
  /// Adds a finite language.
  void add_texts(const std::vector<std::string>& texts);
  /// Adds the texts of `minimum` to `maximum` characters.
  void add_lengths(std::uint64_t minimum, std::uint64_t maximum);

  [[nodiscard]] std::size_t num_languages() const { return starts_.size(); }
  /// The sets of characters at the places, each once.
  [[nodiscard]] const std::vector<std::vector<CodeRange>>& characters() const { return characters_; }

  [[nodiscard]] Places start() const { return closure(starts_); }
  [[nodiscard]] Places step(const Places& places, char32_t character) const;
  /// For each language, whether it holds the text that led to `places`.
  [[nodiscard]] std::vector<bool> accepted(const Places& places) const;
  /// For each language, whether it holds `text` (UTF-8).
  [[nodiscard]] std::vector<bool> matches(std::string_view text) const;

 private:
  /// Leads to `next` by a character of characters_[characters]; without characters, to `next` and `other` at once.
  struct Place {
    std::int32_t characters = -1, next = -1, other = -1;
    std::int32_t language = -1;  ///< that ends here
  };
  /// A part of a language: begins at the first place and ends at the last, which leads nowhere.
  using Fragment = std::vector<Place>;

  [[nodiscard]] Places closure(const std::vector<std::int32_t>& from) const;
  void add_language(GrammarBuilder& builder, GrammarNode root);
  Fragment fragment_of(const Grammar& grammar, const GrammarExpression& one, const std::vector<Fragment>& all);
  Fragment characters_fragment(std::vector<CodeRange> ranges);
  Fragment literal(std::string_view text);
  void append(Fragment& to, const Fragment& part) const;
  [[nodiscard]] Fragment choice(std::span<const std::int32_t> parts, const std::vector<Fragment>& all) const;
  [[nodiscard]] Fragment repeated(const Fragment& part, std::uint32_t minimum, std::uint32_t maximum) const;

  WorkBudget& budget_;
  std::vector<Place> places_;
  std::vector<std::int32_t> starts_;  // of languages
  std::vector<std::vector<CodeRange>> characters_;
  std::map<std::vector<std::pair<char32_t, char32_t>>, std::int32_t> known_characters_;
};

}  // namespace rocmforge
