#include "apps/program.h"
#include "paths.h"

#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <sstream>
#include <stdexcept>

namespace rocmforge {
namespace {

[[noreturn]] void execute(const std::vector<std::string>& arguments, const std::vector<std::string>& environment) {
  std::vector<char*> pointers = {const_cast<char*>("rocmforge")};
  for (const std::string& argument : arguments) {
    pointers.push_back(const_cast<char*>(argument.c_str()));
  }
  pointers.push_back(nullptr);
  setenv("ROCMFORGE_DEVICE", "cpu", 1);  // the tests expect the CPU; `environment` may name another device
  for (const std::string& line : environment) {
    putenv(const_cast<char*>(line.c_str()));
  }
  execv(test::program_path().c_str(), pointers.data());
  _exit(127);
}

int exit_code(int status) { return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status); }

/// Writes `input` and reads both outputs side by side, so that no full pipe can stop the program.
void exchange(int input_pipe, const std::string& input, int out_pipe, int err_pipe, ProgramResult& result) {
  std::size_t written = 0;
  std::array<pollfd, 3> pipes = {pollfd{out_pipe, POLLIN, 0}, pollfd{err_pipe, POLLIN, 0}, pollfd{input_pipe, POLLOUT, 0}};
  std::array<char, 4096> buffer{};
  while (pipes[0].fd >= 0 || pipes[1].fd >= 0) {
    if (pipes[2].fd >= 0 && written == input.size()) {
      close(pipes[2].fd);
      pipes[2].fd = -1;
    }
    poll(pipes.data(), pipes.size(), -1);
    for (std::size_t i = 0; i < 2; ++i) {
      if (pipes[i].fd >= 0 && pipes[i].revents != 0) {
        const ssize_t count = read(pipes[i].fd, buffer.data(), buffer.size());
        if (count <= 0) {
          close(pipes[i].fd);
          pipes[i].fd = -1;
        } else {
          (i == 0 ? result.out : result.err).append(buffer.data(), static_cast<std::size_t>(count));
        }
      }
    }
    if (pipes[2].fd >= 0 && pipes[2].revents != 0) {
      const ssize_t count = write(pipes[2].fd, input.data() + written, input.size() - written);
      written = count < 0 ? input.size() : written + static_cast<std::size_t>(count);
    }
  }
  if (pipes[2].fd >= 0) {
    close(pipes[2].fd);
  }
}

/// `err` without the program's notices about long operations, which depend on the machine.
std::string without_notices(const std::string& err) {
  std::istringstream lines(err);
  std::string kept;
  for (std::string line; std::getline(lines, line);) {
    if (!line.ends_with(" ...")) {
      kept += line;
      kept += lines.eof() ? "" : "\n";  // the last line may have no end
    }
  }
  return kept;
}

}  // namespace

ProgramResult run_program(const std::vector<std::string>& arguments, const std::string& input,
                          const std::vector<std::string>& environment) {
  std::signal(SIGPIPE, SIG_IGN);  // a program that does not read its input must not end the test
  int in[2];
  int out[2];
  int err[2];
  if (pipe2(in, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0 || pipe2(err, O_CLOEXEC) != 0) {
    throw std::runtime_error("no pipes");
  }
  const pid_t process = fork();
  if (process == 0) {
    dup2(in[0], STDIN_FILENO);
    dup2(out[1], STDOUT_FILENO);
    dup2(err[1], STDERR_FILENO);
    execute(arguments, environment);
  }
  close(in[0]);
  close(out[1]);
  close(err[1]);
  ProgramResult result;
  exchange(in[1], input, out[0], err[0], result);
  result.err = without_notices(result.err);
  int status = 0;
  waitpid(process, &status, 0);
  result.exit_code = exit_code(status);
  return result;
}

TerminalProgram::TerminalProgram(const std::vector<std::string>& arguments, const std::vector<std::string>& environment) {
  const winsize size = {40, 200, 0, 0};
  process_ = forkpty(&terminal_, nullptr, nullptr, &size);
  if (process_ == 0) {
    setenv("TERM", "xterm", 1);
    execute(arguments, environment);
  }
}

TerminalProgram::~TerminalProgram() {
  if (process_ > 0) {
    kill(process_, SIGKILL);
    waitpid(process_, nullptr, 0);
  }
  close(terminal_);
}

void TerminalProgram::type(const std::string& keys) const {
  if (write(terminal_, keys.data(), keys.size()) != static_cast<ssize_t>(keys.size())) {
    throw std::runtime_error("the terminal takes no keys");
  }
}

bool TerminalProgram::read_more(double seconds) {
  pollfd ready = {terminal_, POLLIN, 0};
  if (poll(&ready, 1, static_cast<int>(seconds * 1000)) <= 0) {
    return false;
  }
  std::array<char, 4096> buffer{};
  const ssize_t count = read(terminal_, buffer.data(), buffer.size());
  if (count <= 0) {
    return false;
  }
  screen_.append(buffer.data(), static_cast<std::size_t>(count));
  return true;
}

bool TerminalProgram::wait_for(const std::string& text, double seconds) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  for (;;) {
    if (const std::size_t found = screen_.find(text, seen_); found != std::string::npos) {
      seen_ = found + text.size();
      return true;
    }
    const double left = std::chrono::duration<double>(end - std::chrono::steady_clock::now()).count();
    if (left <= 0.0 || !read_more(left)) {
      return false;
    }
  }
}

bool TerminalProgram::wait_for_answer(const std::string& text, double seconds) {
  const std::string clear_line = "\r\033[K";
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  if (!wait_for("\033[?2004l", seconds)) {
    return false;
  }
  for (;;) {
    std::size_t begin = seen_;
    while (screen_.compare(begin, clear_line.size(), clear_line) == 0) {
      begin += clear_line.size();
      const std::size_t next = screen_.find(clear_line, begin);
      begin = next == std::string::npos ? begin : next;
    }
    if (screen_.compare(begin, text.size(), text) == 0) {
      seen_ = begin + text.size();
      return true;
    }
    const double left = std::chrono::duration<double>(end - std::chrono::steady_clock::now()).count();
    if (left <= 0.0 || !read_more(left)) {
      return false;
    }
  }
}

int TerminalProgram::wait_for_end(double seconds) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (std::chrono::steady_clock::now() < end) {
    read_more(0.05);
    int status = 0;
    if (waitpid(process_, &status, WNOHANG) == process_) {
      process_ = -1;
      while (read_more(0.0)) {
      }
      return exit_code(status);
    }
  }
  return -1;
}

std::filesystem::path demo_model() { return test::source_path("models/forge-demo.gguf"); }

bool has_demo_model() { return std::filesystem::exists(demo_model()); }

namespace {

template <class T>
void put(std::string& bytes, T value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
}

void put_text(std::string& bytes, const std::string& text) {
  put(bytes, std::uint64_t{text.size()});
  bytes += text;
}

}  // namespace

std::string copy_of_demo_model(const TemporaryFolder& folder, const std::vector<std::pair<std::string, float>>& numbers) {
  std::ifstream file(demo_model(), std::ios::binary);
  std::string bytes((std::istreambuf_iterator<char>(file)), {});
  constexpr std::uint32_t float_type = 6;
  constexpr std::uint32_t text_type = 8;
  constexpr std::size_t header_bytes = 24;
  constexpr std::size_t alignment = 32;
  std::string pairs;
  for (const auto& [key, value] : numbers) {
    put_text(pairs, key);
    put(pairs, float_type);
    put(pairs, value);
  }
  put_text(pairs, "test.padding");  // the tensors behind the pairs stay aligned
  put(pairs, text_type);
  const std::size_t size = pairs.size() + sizeof(std::uint64_t);
  put_text(pairs, std::string((size + alignment - 1) / alignment * alignment - size, ' '));
  std::uint64_t count = 0;
  std::memcpy(&count, bytes.data() + header_bytes - sizeof count, sizeof count);
  count += numbers.size() + 1;
  std::memcpy(bytes.data() + header_bytes - sizeof count, &count, sizeof count);
  bytes.insert(header_bytes, pairs);
  return folder.write("demo-copy.gguf", bytes);
}

}  // namespace rocmforge
