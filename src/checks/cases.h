#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "checks/bench.h"
#include "checks/difference.h"
#include "checks/problem.h"

namespace rocmforge {

/// The result of a kernel's calls of one shape.
struct CallResult {
  std::string problem;          ///< empty: every element was right, twice
  std::string skipped;          ///< why there was nothing to check; empty where there was
  std::string oracle;           ///< the kernel whose outputs were expected
  std::int64_t elements = 0;    ///< compared
  OutputDifference difference;  ///< of the output that differs first, else of the one that differs most
  double seconds = 0.0;         ///< of a call, where it was right
  double seconds_apart = 0.0;   ///< of the same with a launch for each of its calls, where several are merged
  double bytes = 0.0;           ///< CallProblem::bytes
  double flops = 0.0;

  [[nodiscard]] bool right() const { return problem.empty(); }
};

/// A kernel with one shape of its calls.
struct KernelCase {
  std::string operation;
  std::string spec;
  std::string kernel;
  std::string shape;
  std::function<CallResult(CheckBench& bench)> run;
  bool is_reduced = false;  ///< larger shapes of this use would take the oracle too long
  double work = 0.0;        ///< of the oracle: products of two numbers
};

struct CaseOptions {
  ShapeLimits limits{};
  /// The most work of an oracle for one case, in products of two numbers: on a device with a kernel for that, and on the
  /// processor. The smallest shape of a kernel is always checked.
  double device_work = 1e11;
  double host_work = 4e8;
  /// Of a kernel's uses the first has the longest calls, and those with the same code have few shapes.
  bool each_code_once = false;
  /// Of each use only the shape with the most work of these, and other forms of the same number of tokens.
  bool only_largest = false;
};

/// Every shape of every use once, all uses' smallest shapes first.
std::vector<KernelCase> cases_of(const std::vector<KernelRegistry::AnyUse>& uses, const KernelRegistry& registry,
                                 const DeviceInfo& device, const CaseOptions& options);

/// Uses that cover all operations and formats: the kernels that would be chosen for layers of models that people run.
std::vector<KernelRegistry::AnyUse> uses_of_models(const KernelRegistry& registry, const DeviceInfo& device);

/// Operations among `uses` that have no row in CheckedOperations.
std::vector<std::string> unchecked_operations(const std::vector<KernelRegistry::AnyUse>& uses);

}  // namespace rocmforge
