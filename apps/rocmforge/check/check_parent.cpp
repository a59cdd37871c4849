#include "check/check_parent.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <functional>
#include <optional>
#include <utility>

#include "base/error.h"
#include "check/check_process.h"

namespace rocmforge::app {
namespace {

using Json = nlohmann::ordered_json;
using Milliseconds = std::chrono::milliseconds;

constexpr int most_deaths_in_a_row = 3;
constexpr Milliseconds poll_interval{50};
constexpr Milliseconds end_of_a_child{5'000};
constexpr std::size_t named_launches = 4;

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
    (*page_).fault.fill('\0');
    (*page_).faulted.store(false);
    finished_ = false;
    CheckProcess child(make_, task_, *page_);
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
    child.wait(end_of_a_child);
    return true;
  }

  [[nodiscard]] CheckPhase phase() const { return static_cast<CheckPhase>((*page_).phase.load()); }
  [[nodiscard]] bool in_a_case() const { return (*page_).current.load() >= 0 && !run_.cases.empty(); }
  [[nodiscard]] Milliseconds limit() const {
    return in_a_case() && runs_the_kernel(phase()) ? options_.call : options_.preparation;
  }

  void read_lines(CheckProcess& child) {
    while (const std::optional<Json> line = child.next_line()) {
      if (line->is_object()) {
        read_line(*line);
      }
    }
  }

  void read_line(const Json& line) {
    if (line.contains("cases")) {
      const Json& of = line["checked"];
      run_.checked = {
          .name = of[0], .architecture = of[1], .runtime = of[2], .driver = of[3], .kernels = of[4], .version = of[5]};
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
    } else if (line.contains("sensors")) {
      read_sensors(line["sensors"]);
    } else if (line.contains("case")) {
      deaths_in_a_row_ = 0;
      read_result(line);
    } else if (line.contains("failure")) {
      throw Error(line["failure"].get<std::string>());
    } else if (line.contains("end")) {
      finished_ = true;
    }
  }

  /// A later child's readings replace those of an earlier one, but for what was read before the first.
  void read_sensors(const Json& sensors) {
    const Json before = run_.sensors.is_object() ? run_.sensors["before"] : sensors["before"];
    run_.sensors = sensors;
    run_.sensors["before"] = before;
  }

  void read_result(const Json& line) {
    const auto index = line["case"].get<std::int64_t>();
    CaseReport& report = run_.cases.at(static_cast<std::size_t>(index));
    task_.done.insert(index);
    report.phases = line.value("phases", PhaseSeconds{});
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
      report.seconds_apart = line.value("seconds_apart", 0.0);
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

  void child_hung(CheckProcess& child) {
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

  void child_died(CheckProcess& child) {
    const std::string end = end_text(child.wait(end_of_a_child));
    const std::string fault = (*page_).faulted.load() ? std::string((*page_).fault.data()) : std::string();
    if (!in_a_case()) {
      throw Error(fmt::format("the process that sets up the device ended: {}", fault.empty() ? end : fault));
    }
    end_case(CaseVerdict::crashed, fault.empty()
                                       ? fmt::format("the process ended with {} in {}{}", end, name(phase()), launches())
                                       : fmt::format("{} in {}", fault, name(phase())));
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
  SharedCheckPage page_;
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

PhaseSeconds CheckRun::phases() const {
  PhaseSeconds sum{};
  for (const CaseReport& one : cases) {
    std::ranges::transform(sum, one.phases, sum.begin(), std::plus());
  }
  return sum;
}

bool CheckRun::failed() const { return std::ranges::any_of(cases, &CaseReport::failed); }

CheckRun check_in_children(const MakeCheckSetUp& make, const ParentOptions& options) { return Parent(make, options).run(); }

}  // namespace rocmforge::app
