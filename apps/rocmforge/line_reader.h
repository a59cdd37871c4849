#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace rocmforge::app {

/// Lines from a person at a terminal (with editing and a history that is kept in a file), or from a pipe when standard
/// input or output is no terminal (nothing but the lines then).
class LineReader {
 public:
  enum class Event { line, interrupted, end };
  struct Result {
    Event event = Event::end;
    std::string line;       ///< without its newline; what was pasted keeps those within
    bool had_text = false;  ///< interrupted: something had been typed
  };

  /// An unusable history file only means that nothing is remembered. `commands` are words that begin with '/': Tab
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
