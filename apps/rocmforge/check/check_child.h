#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/thread_pool.h"
#include "checks/cases.h"
#include "device/amd_system.h"
#include "device/device.h"
#include "device/launch_trace.h"
#include "engine/check_records.h"

namespace rocmforge::app {

/// Everything that a child process checks. The parent never opens a device, so that each child starts from nothing.
struct CheckSetUp {
  std::unique_ptr<Device> device;
  std::unique_ptr<const KernelRegistry> registry;
  std::unique_ptr<ThreadPool> pool;
  CheckedDevice checked;           ///< what a saved result holds for
  nlohmann::ordered_json machine;  ///< for the report: device, driver, model
  std::vector<KernelCase> cases;   ///< the same in every child
  /// Reads the sensors of a card that has some. Null: none.
  std::function<AmdSensors()> sensors;
  /// Measures what speeds are compared with; the first child calls it.
  std::function<nlohmann::ordered_json(CheckSetUp& set_up)> ceilings;
};
using MakeCheckSetUp = std::function<CheckSetUp()>;

/// The memory that a child shares with its parent: what it does now, and what it launched.
struct CheckPage {
  static constexpr std::int64_t setting_up = -1;
  std::atomic<std::int64_t> current{setting_up};  ///< index of the case
  std::atomic<int> phase{0};                      ///< CheckPhase
  std::atomic<std::int64_t> phases{0};            ///< how many were begun
  LaunchTrace launches;
  std::atomic<bool> faulted{false};  ///< set after `fault`, which ends with a zero
  std::array<char, 512> fault{};     ///< what a GPU's memory fault says
};

using CheckClock = std::chrono::steady_clock;

struct ChildTask {
  bool first = true;                  ///< the first child lists the cases and measures the ceilings
  std::set<std::int64_t> done;        ///< cases that are not run
  CheckClock::time_point stop_after;  ///< no case but the first is begun afterwards
};

/// The work of a child: writes a line of JSON for each result to the pipe `to_parent`. Returns the process's exit code.
int run_check_child(const MakeCheckSetUp& make, const ChildTask& task, CheckPage& page, int to_parent);

}  // namespace rocmforge::app
