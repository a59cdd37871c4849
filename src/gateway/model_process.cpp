#include "gateway/model_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstring>
#include <thread>
#include <utility>

#include "base/error.h"
#include "base/printable.h"

extern "C" char** environ;  // NOLINT: the system's name

namespace rocmforge {
namespace {

constexpr int no_program = 127;

/// Two ends of a pipe, closed where they are not taken.
struct Pipe {
  Pipe() {
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
      throw Error(fmt::format("no pipe to a child process: {}", std::strerror(errno)));
    }
  }
  ~Pipe() {
    for (const int end : ends) {
      end >= 0 ? static_cast<void>(::close(end)) : void();
    }
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  int take(std::size_t end) { return std::exchange(ends[end], -1); }

  std::array<int, 2> ends{-1, -1};
};

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> list;
  for (std::string& text : texts) {
    list.push_back(text.data());
  }
  list.push_back(nullptr);
  return list;
}

std::vector<std::string> environment(const std::vector<std::string>& without) {
  std::vector<std::string> kept;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    if (std::ranges::none_of(without, [&](const std::string& name) { return text.starts_with(name); })) {
      kept.emplace_back(text);
    }
  }
  return kept;
}

/// In the child: sockets of clients and of the parent's port must not stay open with it.
void close_other_files() {
  constexpr unsigned first = 3;
  if (::syscall(SYS_close_range, first, ~0U, 0U) == 0) {
    return;
  }
  rlimit files{};  // Linux before 5.9
  ::getrlimit(RLIMIT_NOFILE, &files);
  for (unsigned number = first; number < files.rlim_cur; ++number) {
    ::close(static_cast<int>(number));
  }
}

/// What the child runs. Only async-signal-safe functions may be called: other threads of the parent may have held locks.
[[noreturn]] void become(const char* program, char* const* arguments, char* const* variables, pid_t parent,
                         const std::array<int, 3>& streams) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) {  // which has ended before the line above
    ::_exit(no_program);
  }
  ::setpgid(0, 0);  // Ctrl-C at a terminal is for the parent, which ends its children when they have answered
  for (int number = 0; number < 3; ++number) {
    ::dup2(streams[static_cast<std::size_t>(number)], number);
  }
  close_other_files();
  const rlimit no_core{0, 0};
  ::setrlimit(RLIMIT_CORE, &no_core);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::signal(SIGPIPE, SIG_DFL);
  ::execve(program, arguments, variables);
  ::_exit(no_program);
}

}  // namespace

LineReader::~LineReader() { ::close(descriptor_); }

bool LineReader::read() {
  std::array<char, 16384> piece{};
  const ssize_t size = ::read(descriptor_, piece.data(), piece.size());
  if (size > 0) {
    text_.append(piece.data(), static_cast<std::size_t>(size));
  }
  ended_ = size == 0 || (size < 0 && errno != EINTR && errno != EAGAIN);
  return !ended_;
}

std::optional<std::string> LineReader::next() {
  const std::size_t end = text_.find('\n');
  const bool is_whole = end != std::string::npos;
  if (text_.empty() || (!is_whole && !ended_ && text_.size() < longest_line)) {
    return std::nullopt;
  }
  std::string line = text_.substr(0, end);
  text_.erase(0, is_whole ? end + 1 : end);
  return line;
}

ModelProcess::ModelProcess(const std::string& program, const std::vector<std::string>& arguments,
                           const std::vector<std::string>& without) {
  std::vector<std::string> words = {"rocmforge"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<std::string> variables = environment(without);
  const std::vector<char*> argv = pointers(words), envp = pointers(variables);
  Pipe input, output, errors;
  const pid_t parent = ::getpid();
  process_ = ::fork();
  if (process_ == 0) {
    become(program.c_str(), argv.data(), envp.data(), parent, {input.ends[0], output.ends[1], errors.ends[1]});
  }
  if (process_ < 0) {
    throw Error(fmt::format("no child process: {}", std::strerror(errno)));
  }
  input_ = input.take(1);
  output_.emplace(output.take(0));
  errors_.emplace(errors.take(0));
  for (const int descriptor : {input_, output_->descriptor(), errors_->descriptor()}) {
    ::fcntl(descriptor, F_SETFL, O_NONBLOCK);
  }
}

ModelProcess::~ModelProcess() {
  if (!status_) {
    signal(SIGKILL);
    int status = 0;
    while (::waitpid(process_, &status, 0) < 0 && errno == EINTR) {
    }
  }
  ::close(input_);
}

void ModelProcess::tell(std::string_view line) const {
  const std::string text = fmt::format("{}\n", line);
  static_cast<void>(!::write(input_, text.data(), text.size()));
}

void ModelProcess::signal(int number) const {
  if (!status_) {
    ::kill(process_, number);
  }
}

int ModelProcess::end(std::chrono::milliseconds time) {
  const auto last = std::chrono::steady_clock::now() + time;
  int status = 0;
  while (!status_) {
    if (::waitpid(process_, &status, WNOHANG) == process_) {
      status_ = status;
      break;
    }
    if (std::chrono::steady_clock::now() > last) {
      signal(SIGKILL);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return *status_;
}

std::string end_text(int status) {
  return WIFSIGNALED(status) ? fmt::format("signal {} ({})", WTERMSIG(status), strsignal(WTERMSIG(status)))
                             : fmt::format("exit code {}", WEXITSTATUS(status));
}

int exit_code_of(int status) { return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status); }

}  // namespace rocmforge
