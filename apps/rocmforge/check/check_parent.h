#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "check/check_child.h"

namespace rocmforge::app {

enum class CaseVerdict { not_reached, right, wrong, hung, crashed, skipped };
std::string_view name(CaseVerdict verdict);

/// A case and what became of it.
struct CaseReport {
  std::string operation;
  std::string spec;
  std::string kernel;
  std::string shape;
  CaseVerdict verdict = CaseVerdict::not_reached;
  std::string detail;  ///< what is wrong, or why it was skipped
  std::string oracle;
  std::int64_t elements = 0;
  double error = 0.0;
  double seconds = 0.0;
  double seconds_apart = 0.0;  ///< CallResult::seconds_apart
  double bytes = 0.0;
  double flops = 0.0;
  PhaseSeconds phases{};  ///< of a case that its child has finished

  [[nodiscard]] bool failed() const {
    return verdict == CaseVerdict::wrong || verdict == CaseVerdict::hung || verdict == CaseVerdict::crashed;
  }
};

/// What all children found.
struct CheckRun {
  CheckedDevice checked;
  nlohmann::ordered_json machine;
  nlohmann::ordered_json ceilings;
  nlohmann::ordered_json sensors;  ///< SensorLog::describe(); null where no card has some
  std::vector<CaseReport> cases;
  std::string stopped;  ///< why the check ended before its last case; empty when it did not
  double seconds = 0.0;

  [[nodiscard]] std::int64_t count(CaseVerdict verdict) const;
  /// The sum of all cases.
  [[nodiscard]] PhaseSeconds phases() const;
  [[nodiscard]] bool failed() const;
};

struct ParentOptions {
  std::chrono::milliseconds total{180'000};
  std::chrono::milliseconds call{10'000};         ///< of a phase in which the kernel under test runs
  std::chrono::milliseconds preparation{60'000};  ///< of other phases, and of a child's start
  /// Called after each result: cases that are done, all cases, and the case that comes next.
  std::function<void(std::size_t done, std::size_t all, const CaseReport& next)> progress;
};

/// Runs the cases in a child process. A kernel that does not end in its time is killed with its process; that kernel, or one
/// that ends its process, is reported by name, its other shapes are left out, and a new child goes on with the next. After
/// three such kernels in a row without a result between them it stops. The calling process may have no other threads. Throws
/// Error when a child can't be set up.
CheckRun check_in_children(const MakeCheckSetUp& make, const ParentOptions& options);

}  // namespace rocmforge::app
