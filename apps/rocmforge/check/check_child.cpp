#include "check/check_child.h"

#include <unistd.h>

#include <cerrno>
#include <exception>
#include <optional>
#include <string_view>
#include <utility>

#include "bench/card_sensors.h"
#include "commands/step_timeout.h"
#include "device/device_faults.h"

namespace rocmforge::app {
namespace {

using Json = nlohmann::ordered_json;

/// Writes whole lines; when the parent is gone, the child ends by the signal of its pipe.
class LineWriter {
 public:
  explicit LineWriter(int to) : to_(to) {}

  void write(const Json& line) const {
    const std::string text = line.dump(-1, ' ', false, Json::error_handler_t::replace) + '\n';
    for (std::size_t at = 0; at < text.size();) {
      const ssize_t written = ::write(to_, text.data() + at, text.size() - at);
      if (written < 0 && errno != EINTR) {
        return;
      }
      at += written > 0 ? static_cast<std::size_t>(written) : 0;
    }
  }

 private:
  int to_;
};

Json json_of(const KernelCase& one) {
  return {{"operation", one.operation}, {"spec", one.spec}, {"kernel", one.kernel}, {"shape", one.shape}};
}

Json json_of(const CallResult& result) {
  if (!result.skipped.empty()) {
    return {{"skipped", result.skipped}};
  }
  return {{"problem", result.problem},   {"oracle", result.oracle},
          {"elements", result.elements}, {"error", result.difference.relative},
          {"seconds", result.seconds},   {"seconds_apart", result.seconds_apart},
          {"bytes", result.bytes},       {"flops", result.flops}};
}

/// A case that throws is the kernel's failure, unless memory is too small for the shape.
Json run_case(const KernelCase& one, CheckBench& bench) {
  try {
    return json_of(one.run(bench));
  } catch (const std::bad_alloc&) {
    return {{"skipped", "not enough memory"}};
  } catch (const std::exception& error) {
    const std::string_view text = error.what();
    if (text.find("cannot allocate") != std::string_view::npos) {
      return {{"skipped", text}};
    }
    return {{"problem", text}};
  }
}

/// What a case's phases took.
class PhaseTimes {
 public:
  void begin(CheckPhase phase) {
    end();
    phase_ = phase;
    start_ = CheckClock::now();
  }
  void end() {
    if (phase_) {
      seconds_[static_cast<std::size_t>(*phase_)] += std::chrono::duration<double>(CheckClock::now() - start_).count();
    }
    phase_.reset();
  }
  [[nodiscard]] const PhaseSeconds& seconds() const { return seconds_; }

 private:
  PhaseSeconds seconds_{};
  std::optional<CheckPhase> phase_;
  CheckClock::time_point start_;
};

/// The sensors of the card, if it has some, read while something is measured.
class Sensors {
 public:
  explicit Sensors(const CheckSetUp& set_up) {
    if (set_up.sensors) {
      watch_.emplace(set_up.sensors);
    }
  }
  void measuring(bool now) {
    if (watch_) {
      watch_->measuring(now);
    }
  }
  /// From time to time, since the parent may end this process at any time.
  void write(const LineWriter& writer) {
    if (watch_) {
      writer.write({{"sensors", watch_->describe()}});
    }
  }

 private:
  std::optional<SensorWatch> watch_;
};

constexpr std::size_t cases_between_sensor_lines = 20;

void run_cases(CheckSetUp& set_up, const ChildTask& task, CheckPage& page, Sensors& sensors, const LineWriter& writer) {
  CheckBench bench(*set_up.device, *set_up.registry, *set_up.pool);
  PhaseTimes times;
  bench.on_phase = [&](CheckPhase phase) {
    times.begin(phase);
    sensors.measuring(phase == CheckPhase::timing);
    page.phase.store(static_cast<int>(phase));
    page.phases.fetch_add(1);
  };
  bool any = false;  // however short the time is, something is checked
  for (std::size_t i = 0; i < set_up.cases.size(); ++i) {
    const auto index = static_cast<std::int64_t>(i);
    if (task.done.contains(index)) {
      continue;
    }
    if (std::exchange(any, true) && CheckClock::now() > task.stop_after) {
      break;
    }
    page.current.store(index);
    times = PhaseTimes();
    bench.on_phase(CheckPhase::inputs);
    Json line = run_case(set_up.cases[i], bench);
    times.end();
    sensors.measuring(false);
    line["case"] = index;
    line["phases"] = times.seconds();
    writer.write(line);
    if (i % cases_between_sensor_lines == 0) {
      sensors.write(writer);
    }
  }
  sensors.write(writer);
}

/// The page of this process, for the handler of faults.
std::atomic<CheckPage*> page_of_process{nullptr};

/// The parent reads the line from the page.
void note_fault(const std::string& line) {
  CheckPage& page = *page_of_process.load();
  line.copy(page.fault.data(), page.fault.size() - 1);
  page.faulted.store(true);
  ::_exit(exit_device_fault);
}

}  // namespace

int run_check_child(const MakeCheckSetUp& make, const ChildTask& task, CheckPage& page, int to_parent) {
  use_launch_trace(page.launches);
  page_of_process.store(&page);
  on_device_fault(note_fault);
  const LineWriter writer(to_parent);
  try {
    CheckSetUp set_up = make();
    Sensors sensors(set_up);
    if (task.first) {
      Json cases = Json::array();
      for (const KernelCase& one : set_up.cases) {
        cases.push_back(json_of(one));
      }
      const CheckedDevice& of = set_up.checked;
      writer.write({{"checked", Json::array({of.name, of.architecture, of.runtime, of.driver, of.kernels, of.version})},
                    {"machine", set_up.machine},
                    {"cases", cases}});
      sensors.measuring(true);
      writer.write({{"ceilings", set_up.ceilings ? set_up.ceilings(set_up) : Json::object()}});
      sensors.measuring(false);
      sensors.write(writer);
    }
    run_cases(set_up, task, page, sensors, writer);
    writer.write({{"end", true}});
    return 0;
  } catch (const std::exception& error) {
    writer.write({{"failure", error.what()}});
    return 1;
  }
}

}  // namespace rocmforge::app
