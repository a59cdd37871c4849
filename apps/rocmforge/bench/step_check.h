#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "checks/bench.h"
#include "checks/model_shapes.h"
#include "engine/engine.h"
#include "models/model.h"

namespace rocmforge::app {

/// What was found in the kernels of a model's steps.
struct StepCheck {
  std::int64_t calls = 0;           ///< of a kernel at one shape; each was made twice
  std::int64_t elements = 0;        ///< compared
  std::int64_t reduced = 0;         ///< calls for fewer tokens than the step has, because the oracle takes too long
  std::set<std::string> unchecked;  ///< operations without an oracle
  std::vector<std::string> wrong;   ///< a line for each call that was wrong: kernel, shape, count and first place

  /// "14 calls of the step's kernels compared with oracles, 123456 elements: right"
  [[nodiscard]] std::string summary() const;
};

/// Sequences that each append `rows` tokens behind `before` positions.
StepShape step_of(std::int32_t sequences, std::int32_t rows, std::int32_t before);

/// The uses of a plan's kernels that a step of this shape runs.
std::vector<KernelRegistry::AnyUse> uses_of_step(const std::vector<PlannedOperation>& plan, const StepShape& step);

/// Compares every element that these kernels write at the step's shapes with their oracles.
StepCheck check_step(CheckBench& bench, const std::vector<KernelRegistry::AnyUse>& uses, const StepShape& step);

/// The same for steps of a model, which is planned anew with `options`. Its engine should be gone: the check needs memory.
StepCheck check_steps(const std::string& path, const EngineOptions& options, const std::vector<StepShape>& steps);

/// Prints a line for each wrong call on standard error. Returns the exit code.
int print_step_check(const StepCheck& check);

}  // namespace rocmforge::app
