#include "check/check_process.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <thread>

#include "base/error.h"

namespace rocmforge::app {
namespace {

constexpr std::chrono::milliseconds end_of_a_killed_process{5'000};
constexpr std::size_t most_unread_text = std::size_t{64} << 20;

/// In the child: it dies with its parent, and leaves no core, which would have the size of a model.
void prepare_child() {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  const rlimit no_core{0, 0};
  ::setrlimit(RLIMIT_CORE, &no_core);
}

}  // namespace

SharedCheckPage::SharedCheckPage() {
  memory_ = ::mmap(nullptr, sizeof(CheckPage), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory_ == MAP_FAILED) {
    throw Error(fmt::format("no memory to share with a child process: {}", std::strerror(errno)));
  }
  page_ = new (memory_) CheckPage;
}

SharedCheckPage::~SharedCheckPage() { ::munmap(memory_, sizeof(CheckPage)); }

CheckProcess::CheckProcess(const MakeCheckSetUp& make, const ChildTask& task, CheckPage& page) {
  std::array<int, 2> ends{};
  if (::pipe(ends.data()) != 0) {
    throw Error(fmt::format("no pipe to a child process: {}", std::strerror(errno)));
  }
  std::fflush(nullptr);  // what is buffered would be written by both
  process_ = ::fork();
  if (process_ == 0) {
    ::close(ends[0]);
    prepare_child();
    std::_Exit(run_check_child(make, task, page, ends[1]));
  }
  ::close(ends[1]);
  from_ = ends[0];
  if (process_ < 0) {
    ::close(from_);
    throw Error(fmt::format("no child process: {}", std::strerror(errno)));
  }
}

CheckProcess::~CheckProcess() {
  kill();
  ::close(from_);
}

bool CheckProcess::read(std::chrono::milliseconds time) {
  pollfd waited{from_, POLLIN, 0};
  if (::poll(&waited, 1, static_cast<int>(time.count())) <= 0) {
    return true;
  }
  std::array<char, 65536> piece{};
  const ssize_t size = ::read(from_, piece.data(), piece.size());
  if (size <= 0) {
    return size < 0 && errno == EINTR;
  }
  text_.append(piece.data(), static_cast<std::size_t>(size));
  return text_.size() < most_unread_text;
}

std::optional<nlohmann::ordered_json> CheckProcess::next_line() {
  const std::size_t end = text_.find('\n');
  if (end == std::string::npos) {
    return std::nullopt;
  }
  nlohmann::ordered_json line = nlohmann::ordered_json::parse(text_.substr(0, end), nullptr, false);
  text_.erase(0, end + 1);
  return line;
}

std::optional<int> CheckProcess::wait(std::chrono::milliseconds time) {
  const auto last = CheckClock::now() + time;
  int status = 0;
  while (!status_) {
    if (::waitpid(process_, &status, WNOHANG) == process_) {
      status_ = status;
    } else if (CheckClock::now() > last) {
      break;
    } else {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  }
  return status_;
}

std::optional<int> CheckProcess::kill() {
  if (process_ > 0 && !status_) {
    ::kill(process_, SIGKILL);
    wait(end_of_a_killed_process);
  }
  return status_;
}

std::string end_text(std::optional<int> status) {
  if (!status) {
    return "its process can't be ended: the driver may need a restart";
  }
  return WIFSIGNALED(*status) ? fmt::format("signal {} ({})", WTERMSIG(*status), strsignal(WTERMSIG(*status)))
                              : fmt::format("exit code {}", WEXITSTATUS(*status));
}

}  // namespace rocmforge::app
