#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace rocmforge::app {

/// Reads lines: with editing and a history file at a terminal, else plain lines, when standard input or output is not a
/// terminal.
class LineReader {
 public:
  enum class Event { line, interrupted, end };
  struct Result {
    Event event = Event::end;
    std::string line;       ///< without the newline at its end; pasted text keeps its inner newlines
    bool had_text = false;  ///< interrupted: the line had text
  };

  /// If the history file can't be used, there is no history and no error. `commands` are words that begin with '/': Tab
  /// completes them at the start of a line.
  LineReader(std::filesystem::path history_file, std::vector<std::string> commands);
  ~LineReader();
  LineReader(const LineReader&) = delete;
  LineReader& operator=(const LineReader&) = delete;

  [[nodiscard]] bool interactive() const { return terminal_ != nullptr; }

  /// Ctrl-C is reported as Event::interrupted (at a terminal, inside an InterruptScope), Ctrl-D and the end of a pipe as
  /// end.
  Result read(const std::string& prompt);
  void remember(const std::string& line);

 private:
  struct Terminal;
  std::unique_ptr<Terminal> terminal_;  ///< null for a pipe
};

/// $XDG_STATE_HOME/rocmforge/history or ~/.local/state/rocmforge/history; empty when neither variable is set.
std::filesystem::path history_path();

}  // namespace rocmforge::app
