#pragma once

#include <map>
#include <optional>
#include <vector>

#include "grammar/builder.h"

namespace rocmforge {

/// The parts that the grammars of JSON texts share. Each is added to the grammar when it is first needed.
class JsonGrammar {
 public:
  /// `grammar` must outlive the object.
  explicit JsonGrammar(GrammarBuilder& grammar) : grammar_(grammar) {}

  [[nodiscard]] GrammarBuilder& grammar() const { return grammar_; }

  /// Nothing, a blank, or a line's end with its indentation: bounded, so that a text can't consist of blanks for ever.
  GrammarNode blanks();
  /// One blank or none, and `value`.
  GrammarNode after_blank(GrammarNode value);
  /// Any character inside a string, escaped or not.
  GrammarNode character();
  /// The characters of `ranges` (normalized, not empty) as a string contains them. Control characters without a short escape
  /// are written only if there are no other characters.
  GrammarNode characters(const std::vector<CodeRange>& ranges);
  /// `inside` between quotes.
  GrammarNode quoted(GrammarNode inside);
  GrammarNode any_string();

  /// "," between elements or members, and `next`.
  GrammarNode comma(GrammarNode next);
  /// A member of an object.
  GrammarNode member(GrammarNode key, GrammarNode value);
  /// A list or an object in its brackets. `inside`: its elements or members; none: it is empty.
  GrammarNode array(std::optional<GrammarNode> inside);
  GrammarNode object(std::optional<GrammarNode> inside);
  /// `minimum` to `maximum` of `one` with commas; none for `maximum` 0.
  std::optional<GrammarNode> list(GrammarNode one, std::uint64_t minimum, std::uint64_t maximum);

  /// Any value, and any object, whose lists and objects are nested at most `depth` deep (an object: in it).
  GrammarNode any_value(int depth);
  GrammarNode any_object(int depth);

 private:
  GrammarNode mark(char one);
  GrammarNode bracketed(char open, std::optional<GrammarNode> inside, char close);

  GrammarBuilder& grammar_;
  std::optional<GrammarNode> blanks_, character_, string_;
  std::map<char, GrammarNode> marks_;
  std::map<int, GrammarNode> values_, objects_;  ///< by depth
};

}  // namespace rocmforge
