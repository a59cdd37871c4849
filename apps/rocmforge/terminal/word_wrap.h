#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "chat/answer_parser.h"

namespace rocmforge::app {

/// Breaks a text that arrives in pieces between its words. A word is shown as it arrives; if it does not fit, it is removed
/// and put on the next line. Lines of code (between lines of ```) are not changed. Control characters
/// and bidirectional marks are shown as escapes (base/printable.h): answers can't move the cursor.
class WordWrap {
 public:
  /// `width` gives the terminal's columns, which may change.
  explicit WordWrap(std::function<std::size_t()> width) : width_(std::move(width)) {}

  /// The text to write to the terminal for a piece of whole characters.
  std::string add(std::string_view piece);

 private:
  void put(std::string_view character, std::string& out);
  void break_line(std::string& out);

  std::function<std::size_t()> width_;
  std::size_t column_ = 0;
  std::string word_;  ///< the part of the last word that has arrived
  std::size_t word_columns_ = 0;
  std::string line_start_;
  bool in_code_ = false;
};

/// Writes the parts of an answer to standard output, wrapped where that is a terminal. Reasoning stands dimmed between the
/// lines "Thinking..." and "...done thinking."; each call on a line of its own, as NAME(ARGUMENTS).
class AnswerPrinter {
 public:
  AnswerPrinter();
  void add(const AnswerDelta& delta);
  /// Ends reasoning and a call that nothing follows.
  void end();

 private:
  void write(std::string_view text);
  void begin_reasoning();
  void end_reasoning();
  void begin_call(std::string_view name);
  /// Writes `end` after the arguments of a call that has begun.
  void end_call(std::string_view end);

  WordWrap wrap_;
  bool wraps_, has_colour_;
  bool is_reasoning_ = false;
  bool is_call_ = false;
  bool at_line_start_ = true;
};

}  // namespace rocmforge::app
