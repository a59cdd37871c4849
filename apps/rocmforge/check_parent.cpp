#include "check_parent.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <optional>
#include <thread>
#include <utility>

#include "base/error.h"

namespace rocmforge::app {
namespace {

using Json = nlohmann::ordered_json;
using Milliseconds = std::chrono::milliseconds;

constexpr int most_deaths_in_a_row = 3;
constexpr Milliseconds poll_interval{50};
constexpr Milliseconds end_of_a_killed_child{5'000};
constexpr std::size_t named_launches = 4;
constexpr std::size_t longest_line = std::size_t{64} << 20;

/// A CheckPage in memory that children share.
class SharedPage {
 public:
  SharedPage() {
    memory_ = ::mmap(nullptr, sizeof(CheckPage), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory_ == MAP_FAILED) {
      throw Error(fmt::format("no memory to share with a child process: {}", std::strerror(errno)));
    }
    page_ = new (memory_) CheckPage;
  }
  ~SharedPage() { ::munmap(memory_, sizeof(CheckPage)); }
  SharedPage(const SharedPage&) = delete;
  SharedPage& operator=(const SharedPage&) = delete;
  [[nodiscard]] CheckPage& operator*() const { return *page_; }

 private:
  void* memory_ = nullptr;
  CheckPage* page_ = nullptr;
};

/// A running child, whose lines are read. The child is killed at the end.
class Child {
 public:
  Child(const MakeCheckSetUp& make, const ChildTask& task, CheckPage& page) {
    std::array<int, 2> ends{};
    if (::pipe(ends.data()) != 0) {
      throw Error(fmt::format("no pipe to a child process: {}", std::strerror(errno)));
    }
    std::fflush(nullptr);  // what is buffered would be written by both
    process_ = ::fork();
    if (process_ == 0) {
      ::close(ends[0]);
      const rlimit no_core{0, 0};  // of a process with gigabytes of weights
      ::setrlimit(RLIMIT_CORE, &no_core);
      std::_Exit(run_check_child(make, task, page, ends[1]));
    }
    ::close(ends[1]);
    from_ = ends[0];
    if (process_ < 0) {
      ::close(from_);
      throw Error(fmt::format("no child process: {}", std::strerror(errno)));
    }
  }
  ~Child() {
    kill();
    ::close(from_);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  /// Appends what has arrived within `time`. False at the end of the pipe.
  bool read(Milliseconds time) {
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
    return text_.size() < longest_line;
  }
  std::optional<Json> next_line() {
    const std::size_t end = text_.find('\n');
    if (end == std::string::npos) {
      return std::nullopt;
    }
    Json line = Json::parse(text_.substr(0, end), nullptr, false);
    text_.erase(0, end + 1);
    return line;
  }
  /// Kills the process where it still runs. Returns its status; empty when the system does not end it.
  std::optional<int> kill() {
    if (process_ > 0 && !status_) {
      ::kill(process_, SIGKILL);
      wait(end_of_a_killed_child);
    }
    return status_;
  }
  /// The status of a process that ends by itself.
  std::optional<int> wait(Milliseconds time) {
    const auto last = CheckClock::now() + time;
    int status = 0;
    while (!status_) {
      if (::waitpid(process_, &status, WNOHANG) == process_) {
        status_ = status;
      } else if (CheckClock::now() > last) {
        break;
      } else {
        std::this_thread::sleep_for(Milliseconds(2));
      }
    }
    return status_;
  }

 private:
  pid_t process_ = -1;
  int from_ = -1;
  std::string text_;
  std::optional<int> status_;
};

std::string end_text(std::optional<int> status) {
  if (!status) {
    return "its process can't be ended: the driver may need a restart";
  }
  return WIFSIGNALED(*status) ? fmt::format("signal {} ({})", WTERMSIG(*status), strsignal(WTERMSIG(*status)))
                              : fmt::format("exit code {}", WEXITSTATUS(*status));
}

bool runs_the_kernel(CheckPhase phase) {
  return phase == CheckPhase::call || phase == CheckPhase::call_beside_load || phase == CheckPhase::timing;
}

/// The children one after another, and what they report.
class Parent {
 public:
  Parent(const MakeCheckSetUp& make, const ParentOptions& options)
      : make_(make), options_(options), start_(CheckClock::now()) {
    task_.stop_after = start_ + options.total;
  }

  CheckRun run() {
    while (run_.stopped.empty() && !run_child()) {
    }
    if (run_.stopped.empty() && run_.count(CaseVerdict::not_reached) > 0) {
      run_.stopped = fmt::format("the time of {:.0f} s was over", seconds_of(options_.total));
    }
    run_.seconds = std::chrono::duration<double>(CheckClock::now() - start_).count();
    return std::move(run_);
  }

 private:
  static double seconds_of(Milliseconds time) { return static_cast<double>(time.count()) / 1000.0; }

  /// True when nothing is left to do.
  bool run_child() {
    (*page_).current.store(CheckPage::setting_up);
    finished_ = false;
    Child child(make_, task_, *page_);
    std::int64_t seen = -1;
    CheckClock::time_point phase_start = CheckClock::now();
    bool open = true;
    while (open && !finished_) {
      open = child.read(poll_interval);
      read_lines(child);
      if (const std::int64_t phases = (*page_).phases.load(); phases != seen) {
        seen = phases;
        phase_start = CheckClock::now();
      }
      if (open && !finished_ && CheckClock::now() - phase_start > limit()) {
        child_hung(child);
        return false;
      }
      if (CheckClock::now() > task_.stop_after && !task_.done.empty()) {
        return true;  // the case that runs is not reached
      }
    }
    if (!finished_) {
      child_died(child);
      return false;
    }
    child.wait(end_of_a_killed_child);
    return true;
  }

  [[nodiscard]] CheckPhase phase() const { return static_cast<CheckPhase>((*page_).phase.load()); }
  [[nodiscard]] bool in_a_case() const { return (*page_).current.load() >= 0 && !run_.cases.empty(); }
  [[nodiscard]] Milliseconds limit() const {
    return in_a_case() && runs_the_kernel(phase()) ? options_.call : options_.preparation;
  }

  void read_lines(Child& child) {
    while (const std::optional<Json> line = child.next_line()) {
      if (line->is_object()) {
        read_line(*line);
      }
    }
  }

  void read_line(const Json& line) {
    if (line.contains("cases")) {
      run_.machine = line["machine"];
      for (const Json& one : line["cases"]) {
        run_.cases.push_back({.operation = one["operation"],
                              .spec = one["spec"],
                              .kernel = one["kernel"],
                              .shape = one["shape"],
                              .detail = {},
                              .oracle = {}});
      }
    } else if (line.contains("ceilings")) {
      run_.ceilings = line["ceilings"];
      task_.first = false;
    } else if (line.contains("case")) {
      deaths_in_a_row_ = 0;
      read_result(line);
    } else if (line.contains("failure")) {
      throw Error(line["failure"].get<std::string>());
    } else if (line.contains("end")) {
      finished_ = true;
    }
  }

  void read_result(const Json& line) {
    const auto index = line["case"].get<std::int64_t>();
    CaseReport& report = run_.cases.at(static_cast<std::size_t>(index));
    task_.done.insert(index);
    if (line.contains("skipped")) {
      report.verdict = CaseVerdict::skipped;
      report.detail = line["skipped"];
    } else {
      report.detail = line.value("problem", "");
      report.verdict = report.detail.empty() ? CaseVerdict::right : CaseVerdict::wrong;
      report.oracle = line.value("oracle", "");
      report.elements = line.value("elements", std::int64_t{0});
      report.error = line.value("error", 0.0);
      report.seconds = line.value("seconds", 0.0);
      report.bytes = line.value("bytes", 0.0);
      report.flops = line.value("flops", 0.0);
    }
    show_progress();
  }

  void show_progress() {
    const auto next = std::ranges::find(run_.cases, CaseVerdict::not_reached, &CaseReport::verdict);
    if (options_.progress && next != run_.cases.end()) {
      options_.progress(task_.done.size(), run_.cases.size(), *next);
    }
  }

  void child_hung(Child& child) {
    const CheckPhase where = phase();
    const std::string killed = child.kill() ? "" : "; " + end_text(std::nullopt);
    if (!in_a_case()) {
      throw Error(fmt::format("the device could not be set up in {:.0f} s{}", seconds_of(options_.preparation), killed));
    }
    if (!runs_the_kernel(where)) {
      end_case(CaseVerdict::skipped,
               fmt::format("{} took more than {:.0f} s{}", name(where), seconds_of(options_.preparation), killed));
      return;
    }
    end_case(CaseVerdict::hung, fmt::format("did not end in {:.0f} s{}{}", seconds_of(options_.call), launches(), killed));
  }

  void child_died(Child& child) {
    const std::string end = end_text(child.wait(end_of_a_killed_child));
    if (!in_a_case()) {
      throw Error(fmt::format("the process that sets up the device ended with {}", end));
    }
    end_case(CaseVerdict::crashed, fmt::format("the process ended with {} in {}{}", end, name(phase()), launches()));
  }

  /// "; last launched: a, b"
  [[nodiscard]] std::string launches() const {
    const std::vector<std::string> names = (*page_).launches.last(named_launches);
    return names.empty() ? "" : fmt::format("; launched last: {}", fmt::join(names, ", "));
  }

  /// Other shapes of a kernel that hung or crashed are left out.
  void end_case(CaseVerdict verdict, const std::string& detail) {
    const std::int64_t index = (*page_).current.load();
    if (task_.done.contains(index)) {
      throw Error(fmt::format("the process of the check ended between two kernels: {}", detail));
    }
    CaseReport& ended = run_.cases.at(static_cast<std::size_t>(index));
    ended.verdict = verdict;
    ended.detail = detail;
    task_.done.insert(index);
    for (std::size_t i = 0; i < run_.cases.size() && verdict != CaseVerdict::skipped; ++i) {
      CaseReport& other = run_.cases[i];
      if (other.verdict == CaseVerdict::not_reached && other.kernel == ended.kernel && other.operation == ended.operation) {
        other.verdict = CaseVerdict::skipped;
        other.detail = fmt::format("the kernel {} before", verdict == CaseVerdict::hung ? "hung" : "crashed");
        task_.done.insert(static_cast<std::int64_t>(i));
      }
    }
    if (++deaths_in_a_row_ == most_deaths_in_a_row) {
      run_.stopped = fmt::format("{} kernels in a row did not end: the driver may have to be restarted", deaths_in_a_row_);
    }
    show_progress();
  }

  const MakeCheckSetUp& make_;
  const ParentOptions& options_;
  CheckClock::time_point start_;
  SharedPage page_;
  ChildTask task_;
  CheckRun run_;
  bool finished_ = false;
  int deaths_in_a_row_ = 0;
};

}  // namespace

std::string_view name(CaseVerdict verdict) {
  constexpr std::array<std::string_view, 6> names = {"not reached", "right", "wrong", "hung", "crashed", "skipped"};
  return names[static_cast<std::size_t>(verdict)];
}

std::int64_t CheckRun::count(CaseVerdict verdict) const { return std::ranges::count(cases, verdict, &CaseReport::verdict); }

bool CheckRun::failed() const { return std::ranges::any_of(cases, &CaseReport::failed); }

CheckRun check_in_children(const MakeCheckSetUp& make, const ParentOptions& options) { return Parent(make, options).run(); }

}  // namespace rocmforge::app
