#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "temporary_folder.h"

namespace rocmforge {

/// The results of a run of the program.
struct ProgramResult {
  int exit_code = -1;  ///< 128 + number for a signal
  std::string out;
  std::string err;  ///< without notices about long operations, which appear only on slow machines
};

/// Runs the built program to its end. `input` is its standard input; `environment` adds NAME=VALUE lines.
ProgramResult run_program(const std::vector<std::string>& arguments, const std::string& input = "",
                          const std::vector<std::string>& environment = {});

/// The program in a pseudo-terminal, for features that need one: line editing and Ctrl-C.
class TerminalProgram {
 public:
  explicit TerminalProgram(const std::vector<std::string>& arguments, const std::vector<std::string>& environment = {});
  ~TerminalProgram();
  TerminalProgram(const TerminalProgram&) = delete;
  TerminalProgram& operator=(const TerminalProgram&) = delete;

  void type(const std::string& keys) const;
  /// Reads until `text` has appeared after what earlier calls waited for. False after `seconds`, or when the program ended.
  bool wait_for(const std::string& text, double seconds = 180.0);
  /// Waits until the line editor has accepted a line and the answer to it begins with `text`. Notices about long operations
  /// may come first.
  bool wait_for_answer(const std::string& text, double seconds = 180.0);
  /// Waits for the end and returns the exit code; -1 when it does not come.
  int wait_for_end(double seconds = 180.0);
  [[nodiscard]] const std::string& screen() const { return screen_; }

 private:
  bool read_more(double seconds);

  int terminal_ = -1;
  int process_ = -1;
  std::string screen_;
  std::size_t seen_ = 0;
};

/// models/forge-demo.gguf of the source tree.
std::filesystem::path demo_model();
bool has_demo_model();

/// A copy of the demo model with these keys and numbers added.
std::string copy_of_demo_model(const TemporaryFolder& folder, const std::vector<std::pair<std::string, float>>& numbers);

}  // namespace rocmforge
