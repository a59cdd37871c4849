#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/work_budget.h"

namespace rocmforge {

/// What a value of `tokenizer.ggml.pre` means.
struct PreTokenizerRules {
  std::vector<std::string_view> names;
  /// Expressions applied one after another, each to the pieces that the one before left. Perl syntax, except that \s and
  /// \S mean Unicode's White_Space, which PCRE2's own \s does not quite.
  std::vector<std::string_view> passes;
  bool ignore_merges = false;  ///< a piece that is a token of its own is taken whole
  bool adds_bos = false;       ///< unless the file says otherwise
};

/// Throws Error for an unknown name, listing the known ones. "" is "default".
PreTokenizerRules pre_tokenizer_rules(std::string_view name);

/// The names of every kind, the first of each group being the one that files use most.
std::vector<std::string_view> pre_tokenizer_names();

/// Cuts text into the pieces that byte pairs are merged within. Immutable; safe to use from several threads.
class PreTokenizer {
 public:
  explicit PreTokenizer(const PreTokenizerRules& rules);
  ~PreTokenizer();
  PreTokenizer(const PreTokenizer&) = delete;
  PreTokenizer& operator=(const PreTokenizer&) = delete;

  /// The pieces cover the text in order; what no expression matches is a piece too. Bytes that are not UTF-8 are pieces of
  /// their own, kept from the expressions. Throws Error when the expression engine gives up.
  [[nodiscard]] std::vector<std::string_view> split(std::string_view text, WorkBudget* budget = nullptr) const;

 private:
  class Expression;
  std::vector<std::unique_ptr<Expression>> passes_;
};

}  // namespace rocmforge
