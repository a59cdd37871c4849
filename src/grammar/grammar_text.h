#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "grammar/grammar.h"

namespace rocmforge {

/// Writes the grammar of a JSON schema in GBNF, rule by rule. Throws Error where it exceeds longest_grammar_bytes.
class GrammarText {
 public:
  /// A name that no other rule has, made of the valid characters of `hint` and a number.
  std::string reserve(std::string_view hint);
  void define(const std::string& name, std::string_view body);
  /// A new rule's name.
  std::string add(std::string_view hint, std::string_view body);

  /// As add(), but the same body gets the same rule.
  std::string add_once(std::string_view hint, const std::string& body);

  [[nodiscard]] const std::string& text() const { return text_; }
  [[nodiscard]] std::size_t rules() const { return rules_; }

  /// "text" with its escapes.
  static std::string literal(std::string_view text);
  /// [class] of normalized ranges that are not empty.
  static std::string characters(const std::vector<CodeRange>& ranges);
  /// {minimum,maximum}, or a shorter form of it.
  static std::string repetition(std::uint64_t minimum, std::uint64_t maximum);
  /// a | b | c; nothing for no parts.
  static std::string choice(const std::vector<std::string>& parts);

 private:
  std::string text_;
  std::size_t rules_ = 0;
  std::unordered_map<std::string, std::string> shared_;  // names by body
};

}  // namespace rocmforge
