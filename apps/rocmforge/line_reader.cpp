#include "line_reader.h"

#include <histedit.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cwchar>
#include <iostream>

#include "interrupt.h"

namespace rocmforge::app {

struct LineReader::Terminal {
  explicit Terminal(std::filesystem::path path)
      : history_file(std::move(path)), editor(el_init("rocmforge", stdin, stdout, stderr)), history(history_init()) {
    HistEvent event;
    ::history(history, &event, H_SETSIZE, 1000);
    ::history(history, &event, H_SETUNIQUE, 1);
    el_set(editor, EL_CLIENTDATA, this);
    el_set(editor, EL_EDITOR, "emacs");
    el_set(
        editor, EL_PROMPT, +[](EditLine* line) { return of(line)->prompt.data(); });
    el_set(editor, EL_HIST, ::history, history);
    el_set(editor, EL_GETCFN, read_character);
    el_source(editor, nullptr);
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

  /// One character for the editor; -1 at Ctrl-C, where its own reader would go on reading.
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

  std::filesystem::path history_file;
  std::string prompt;
  bool had_text = false;
  EditLine* editor;
  History* history;
};

LineReader::LineReader(std::filesystem::path history_file) {
  if (isatty(STDIN_FILENO) != 0 && isatty(STDOUT_FILENO) != 0) {
    terminal_ = std::make_unique<Terminal>(std::move(history_file));
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
    terminal_->had_text = false;
    el_resize(terminal_->editor);
    InterruptScope::take();                      // one that came after the last answer ended
    el_set(terminal_->editor, EL_PREP_TERM, 1);  // before the prompt shows: a key typed at once must find the editor
    int length = 0;
    if (const char* text = el_gets(terminal_->editor, &length); text != nullptr && length > 0) {
      result.event = Event::line;
      result.line = text;
    } else if (InterruptScope::take()) {
      result.event = Event::interrupted;
      result.had_text = terminal_->had_text;
    }
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
