#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rocmforge {

/// Lines that a file descriptor gives. Owns it.
class LineReader {
 public:
  explicit LineReader(int descriptor) : descriptor_(descriptor) {}
  ~LineReader();
  LineReader(const LineReader&) = delete;
  LineReader& operator=(const LineReader&) = delete;

  [[nodiscard]] int descriptor() const { return descriptor_; }
  [[nodiscard]] bool has_ended() const { return ended_; }
  /// Reads what is there. False at the end.
  bool read();
  /// The next whole line without its end, and after the end of the file the rest; empty when there is none. A line that is
  /// too long comes in parts.
  std::optional<std::string> next();

 private:
  int descriptor_;
  std::string text_;
  bool ended_ = false;
};

/// A child process that serves a model. It is killed at the end, and when the thread that started it ends, so that it never
/// outlives its parent. It leaves no core, which would have the size of a model.
class ModelProcess {
 public:
  /// Runs `program` with `arguments` (without the program's name), in an environment without the variables whose names
  /// begin with one of `without`. Throws Error.
  ModelProcess(const std::string& program, const std::vector<std::string>& arguments,
               const std::vector<std::string>& without = {});
  ~ModelProcess();
  ModelProcess(const ModelProcess&) = delete;
  ModelProcess& operator=(const ModelProcess&) = delete;

  [[nodiscard]] pid_t id() const { return process_; }
  [[nodiscard]] LineReader& output() { return *output_; }
  [[nodiscard]] LineReader& errors() { return *errors_; }
  /// Writes a line to the process's standard input. Does not wait: a process that reads nothing misses it.
  void tell(std::string_view line) const;
  void signal(int number) const;
  /// The status, of waitpid, of a process that has closed its output; one that does not end within `time` is killed.
  int end(std::chrono::milliseconds time);

 private:
  pid_t process_ = -1;
  int input_ = -1;
  std::optional<LineReader> output_, errors_;
  std::optional<int> status_;
};

/// "signal 9 (Killed)", "exit code 1"
std::string end_text(int status);

/// As shells count it: the exit code, or 128 and the signal's number.
int exit_code_of(int status);

}  // namespace rocmforge
