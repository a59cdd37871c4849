#pragma once

#include <optional>
#include <string>
#include <vector>

#include "check/check_parent.h"
#include "ops/registry.h"

namespace rocmforge::app {

/// All shapes of one kernel.
struct KernelSummary {
  std::string operation;
  std::string kernel;
  std::int64_t cases = 0;
  std::int64_t right = 0;
  std::int64_t elements = 0;
  double error = 0.0;             ///< the largest of those that were right
  double bytes_per_second = 0.0;  ///< the most of any shape
  double flops_per_second = 0.0;
  const CaseReport* failure = nullptr;  ///< the first
};
std::vector<KernelSummary> kernels_of(const CheckRun& run);

/// The kernels that failed, each once.
std::vector<AvoidedKernel> failed_kernels(const CheckRun& run);

/// What the cases of merged launches found; empty when there were none, or when not all were reached.
std::optional<MergedLaunches> merged_launches_of(const CheckRun& run);

/// The choice of work-groups a unit with which products of one token were fastest, the first one unless another takes a
/// hundredth less. Empty where not all were right.
std::optional<double> product_groups_of(const CheckRun& run);

/// "412 right, 1 wrong, 1 hung, 3 skipped, 12 not reached"
std::string summary_of(const CheckRun& run);

/// One screen: device, counts, failures, a line for each kernel.
std::string screen_report(const CheckRun& run);
/// The same with every call that failed or was skipped and the times of the slowest, in Markdown of at most 60 KB.
std::string text_report(const CheckRun& run);
nlohmann::ordered_json json_report(const CheckRun& run);

}  // namespace rocmforge::app
