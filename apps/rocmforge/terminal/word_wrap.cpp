#include "terminal/word_wrap.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "base/printable.h"
#include "base/utf8.h"
#include "terminal/terminal.h"

namespace rocmforge::app {
namespace {

constexpr std::string_view code_fence = "```";
constexpr std::string_view dim_begin = "\033[2m", style_end = "\033[0m";

}  // namespace

std::string WordWrap::add(std::string_view piece) {
  std::string out;
  while (!piece.empty()) {
    const std::string_view character = piece.substr(0, utf8_unit(piece, 0).length);
    piece.remove_prefix(character.size());
    if (character == "\n") {
      in_code_ = in_code_ != line_start_.starts_with(code_fence);
      line_start_.clear();
      break_line(out);
      continue;
    }
    if (line_start_.size() < code_fence.size() && (!line_start_.empty() || character != " ")) {
      line_start_ += character;
    }
    put(character == "\t" ? std::string(character) : printable(character), out);
  }
  return out;
}

void WordWrap::break_line(std::string& out) {
  out += '\n';
  column_ = 0;
  word_.clear();
  word_columns_ = 0;
}

void WordWrap::put(std::string_view character, std::string& out) {
  // The last column stays free, because terminals differ in the position of the cursor after it.
  const std::size_t width = std::max<std::size_t>(width_(), 8) - 1;
  const std::size_t columns = character == "\t" ? 8 - column_ % 8 : column_width(character);
  const bool is_code = in_code_ || line_start_.starts_with(code_fence);
  const bool blank = character == " " || character == "\t";
  if (!is_code && column_ + columns > width) {
    if (blank) {
      return break_line(out);
    }
    const std::string word = word_columns_ < column_ ? word_ : "";  // a word that fills the line is broken at its end
    const std::size_t kept = word.empty() ? 0 : word_columns_;
    if (kept > 0) {
      out += fmt::format("\033[{}D\033[K", kept);
    }
    break_line(out);
    out += word;
    column_ = word_columns_ = kept;
    word_ = word;
  }
  out += character;
  column_ += columns;
  if (blank || columns > 1) {  // a line may be broken before and after wide characters
    word_.clear();
    word_columns_ = 0;
  } else {
    word_ += character;
    word_columns_ += columns;
  }
}

AnswerPrinter::AnswerPrinter()
    : wrap_([] { return terminal_width(stdout, 80); }),
      wraps_(isatty(STDOUT_FILENO) != 0),
      has_colour_(has_colour(stdout)) {}

void AnswerPrinter::add(const AnswerDelta& delta) {
  if (delta.kind != AnswerDelta::Kind::arguments) {
    end_call(")\n");
  }
  if (delta.kind == AnswerDelta::Kind::reasoning) {
    begin_reasoning();
  } else {
    end_reasoning();
  }
  if (delta.kind == AnswerDelta::Kind::call) {
    begin_call(delta.text);
  } else {
    write(delta.text);
  }
}

void AnswerPrinter::end() {
  end_call(")");
  end_reasoning();
}

void AnswerPrinter::begin_call(std::string_view name) {
  is_call_ = true;
  write(fmt::format("{}{}(", at_line_start_ ? "" : "\n", name));
}

void AnswerPrinter::end_call(std::string_view end) {
  if (std::exchange(is_call_, false)) {
    write(end);
  }
}

void AnswerPrinter::begin_reasoning() {
  if (!std::exchange(is_reasoning_, true)) {
    std::fputs(has_colour_ ? dim_begin.data() : "", stdout);
    write("Thinking...\n");
  }
}

void AnswerPrinter::end_reasoning() {
  if (std::exchange(is_reasoning_, false)) {
    write(at_line_start_ ? "...done thinking.\n\n" : "\n...done thinking.\n\n");
    std::fputs(has_colour_ ? style_end.data() : "", stdout);
    std::fflush(stdout);
  }
}

void AnswerPrinter::write(std::string_view piece) {
  if (piece.empty()) {
    return;
  }
  at_line_start_ = piece.ends_with('\n');
  const std::string text = wraps_ ? wrap_.add(piece) : std::string(piece);
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

}  // namespace rocmforge::app
