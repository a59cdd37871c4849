#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/work_budget.h"

namespace rocmforge {

/// The meaning of a value of `tokenizer.ggml.pre`.
struct PreTokenizerRules {
  std::vector<std::string_view> names;
  /// Expressions that are applied one after another, each to the pieces of the one before. The syntax is Perl's, except that
  /// \s and \S mean Unicode's White_Space, from which PCRE2's own \s differs.
  std::vector<std::string_view> passes;
  bool ignore_merges = false;  ///< a piece that is a token is not merged from parts
  bool adds_bos = false;       ///< the default when the file does not say
};

/// Throws Error for an unknown name, with a list of the known ones. "" is "default".
PreTokenizerRules pre_tokenizer_rules(std::string_view name);

/// All names. The first name of each group is the one that most files use.
std::vector<std::string_view> pre_tokenizer_names();

/// Cuts text into pieces; byte pairs are merged only within a piece. Immutable: several threads may use it at the same time.
class PreTokenizer {
 public:
  explicit PreTokenizer(const PreTokenizerRules& rules);
  ~PreTokenizer();
  PreTokenizer(const PreTokenizer&) = delete;
  PreTokenizer& operator=(const PreTokenizer&) = delete;

  /// The pieces cover the text in order; text between two matches is also a piece. Bytes that are not UTF-8 are pieces of
  /// their own, to which no expression is applied. Throws Error when the expression engine fails or `budget` is used up.
  [[nodiscard]] std::vector<std::string_view> split(std::string_view text, WorkBudget* budget = nullptr) const;

 private:
  class Expression;
  std::vector<std::unique_ptr<Expression>> passes_;
};

}  // namespace rocmforge
