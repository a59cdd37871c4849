#include "terminal/line_reader.h"

#include <histedit.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cwchar>
#include <iostream>
#include <string_view>
#include <utility>

#include "terminal/interrupt.h"
#include "terminal/terminal.h"

namespace rocmforge::app {

namespace {

// Bracketed paste: the terminal sends a mark before and after pasted text, so that a line end in it is not read as Enter.
constexpr std::string_view ask_for_brackets = "\033[?2004h";
constexpr std::string_view end_of_brackets = "\033[?2004l";
constexpr std::string_view paste_end = "\033[201~";
constexpr std::size_t longest_paste = std::size_t{8} << 20;

void write_to_terminal(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

/// Pasted text with \n as line ends, and without control characters other than \n and tabs.
std::string cleaned(std::string_view pasted) {
  std::string text;
  for (std::size_t i = 0; i < pasted.size(); ++i) {
    const char byte = pasted[i];
    if (byte == '\r') {
      text += i + 1 < pasted.size() && pasted[i + 1] == '\n' ? "" : "\n";
    } else if (byte == '\n' || byte == '\t' || (static_cast<unsigned char>(byte) >= 0x20 && byte != 0x7f)) {
      text += byte;
    }
  }
  return text;
}

}  // namespace

struct LineReader::Terminal {
  Terminal(std::filesystem::path path, std::vector<std::string> words)
      : history_file(std::move(path)),
        commands(std::move(words)),
        editor(el_init("rocmforge", stdin, stdout, stderr)),
        history(history_init()) {
    HistEvent event;
    ::history(history, &event, H_SETSIZE, 1000);
    ::history(history, &event, H_SETUNIQUE, 1);
    el_set(editor, EL_CLIENTDATA, this);
    el_set(editor, EL_EDITOR, "emacs");
    el_set(
        editor, EL_PROMPT_ESC, +[](EditLine* line) { return of(line)->prompt.data(); }, prompt_escape);
    el_set(editor, EL_HIST, ::history, history);
    el_set(editor, EL_GETCFN, read_character);
    el_source(editor, nullptr);
    el_set(editor, EL_ADDFN, "paste", "Insert what is pasted as it is", paste);
    el_set(editor, EL_BIND, "\\e[200~", "paste", nullptr);
    el_set(editor, EL_ADDFN, "complete", "Complete a command", complete);
    el_set(editor, EL_BIND, "^I", "complete", nullptr);
    if (!history_file.empty()) {
      std::error_code ignored;
      std::filesystem::create_directories(history_file.parent_path(), ignored);
      ::history(history, &event, H_LOAD, history_file.c_str());
    }
  }
  ~Terminal() {
    history_end(history);
    el_end(editor);
  }
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  static Terminal* of(EditLine* line) {
    void* data = nullptr;
    el_get(line, EL_CLIENTDATA, &data);
    return static_cast<Terminal*>(data);
  }

  /// Reads one character for the editor. Returns -1 at Ctrl-C, at which the editor's own function would not return.
  static int read_character(EditLine* line, wchar_t* character) {
    std::mbstate_t state{};
    for (;;) {
      if (!InterruptScope::wait_readable(STDIN_FILENO)) {
        const LineInfo* info = el_line(line);
        of(line)->had_text = info->lastchar != info->buffer;
        return -1;
      }
      char byte = 0;
      const ssize_t count = ::read(STDIN_FILENO, &byte, 1);
      if (count < 0 && errno == EINTR) {
        continue;
      }
      if (count <= 0) {
        return static_cast<int>(count);
      }
      const std::size_t length = std::mbrtowc(character, &byte, 1, &state);
      if (length == static_cast<std::size_t>(-1)) {
        state = {};  // not a character of this locale
      } else if (length != static_cast<std::size_t>(-2)) {
        return 1;
      }
    }
  }

  /// Reads up to the mark at the end of pasted text, and inserts the text at the cursor.
  static unsigned char paste(EditLine* line, int) {
    std::string text;
    while (!text.ends_with(paste_end)) {
      char byte = 0;
      if (!InterruptScope::wait_readable(STDIN_FILENO) || ::read(STDIN_FILENO, &byte, 1) != 1) {
        return CC_ERROR;
      }
      text += byte;
      if (text.size() > longest_paste) {  // text beyond the limit is dropped, except the last bytes, which may be the mark
        text.erase(longest_paste - paste_end.size(), text.size() - longest_paste);
      }
    }
    text.resize(text.size() - paste_end.size());
    text = cleaned(text);
    return text.empty() || el_insertstr(line, text.c_str()) == 0 ? CC_REFRESH : CC_ERROR;
  }

  /// Completes a command as far as it is unambiguous, else lists the commands. Outside of commands, inserts a tab.
  static unsigned char complete(EditLine* line, int) {
    const LineInfo* info = el_line(line);
    const std::string typed(info->buffer, info->cursor);
    if (!typed.starts_with('/') || typed.find(' ') != std::string::npos) {
      return el_insertstr(line, "\t") == 0 ? CC_REFRESH : CC_ERROR;
    }
    std::vector<std::string> fitting;
    for (const std::string& command : of(line)->commands) {
      if (command.starts_with(typed)) {
        fitting.push_back(command);
      }
    }
    if (fitting.empty()) {
      return CC_ERROR;
    }
    std::string common = fitting.front();
    std::string list = "\n";
    for (const std::string& command : fitting) {
      const auto differs = std::ranges::mismatch(common, command).in1;
      common.erase(differs, common.end());
      list += command + "  ";
    }
    if (common.size() > typed.size()) {
      return el_insertstr(line, common.c_str() + typed.size()) == 0 ? CC_REFRESH : CC_ERROR;
    }
    if (fitting.size() == 1) {
      return CC_NORM;
    }
    write_to_terminal(list + "\n");
    return CC_REDISPLAY;
  }

  static constexpr char prompt_escape = '\1';  ///< before and after the parts of a prompt without width

  std::filesystem::path history_file;
  std::vector<std::string> commands;
  std::string prompt;
  bool had_text = false;
  EditLine* editor;
  History* history;
};

LineReader::LineReader(std::filesystem::path history_file, std::vector<std::string> commands) {
  if (isatty(STDIN_FILENO) != 0 && isatty(STDOUT_FILENO) != 0) {
    terminal_ = std::make_unique<Terminal>(std::move(history_file), std::move(commands));
  }
}

LineReader::~LineReader() = default;

LineReader::Result LineReader::read(const std::string& prompt) {
  Result result;
  if (terminal_ == nullptr) {
    if (std::getline(std::cin, result.line)) {
      result.event = Event::line;
    }
  } else {
    terminal_->prompt = prompt;
    if (has_colour(stdout)) {  // the editor drops an escape after the last character: so the blank comes last
      terminal_->prompt = "\1\033[1;32m\1" + prompt.substr(0, prompt.size() - 1) + "\1\033[0m\1 ";
    }
    terminal_->had_text = false;
    el_resize(terminal_->editor);
    InterruptScope::take();                      // drops a Ctrl-C since the end of the last answer
    el_set(terminal_->editor, EL_PREP_TERM, 1);  // before the prompt is shown, so that the editor gets keys typed at once
    write_to_terminal(ask_for_brackets);
    int length = 0;
    if (const char* text = el_gets(terminal_->editor, &length); text != nullptr && length > 0) {
      result.event = Event::line;
      result.line = text;
    } else if (InterruptScope::take()) {
      result.event = Event::interrupted;
      result.had_text = terminal_->had_text;
    }
    write_to_terminal(end_of_brackets);
  }
  while (result.line.ends_with('\n') || result.line.ends_with('\r')) {
    result.line.pop_back();
  }
  return result;
}

void LineReader::remember(const std::string& line) {
  if (terminal_ == nullptr || line.empty()) {
    return;
  }
  HistEvent event;
  history(terminal_->history, &event, H_ENTER, line.c_str());
  if (!terminal_->history_file.empty()) {
    history(terminal_->history, &event, H_SAVE, terminal_->history_file.c_str());
  }
}

std::filesystem::path history_path() {
  for (const auto& [variable, below] : {std::pair{"XDG_STATE_HOME", ""}, std::pair{"HOME", ".local/state"}}) {
    if (const char* folder = std::getenv(variable); folder != nullptr && *folder != '\0') {
      return std::filesystem::path(folder) / below / "rocmforge" / "history";
    }
  }
  return {};
}

}  // namespace rocmforge::app
