#include "bench/step_check.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdio>
#include <memory>
#include <variant>

#include "checks/cases.h"
#include "engine/plan_model.h"
#include "terminal/progress.h"

namespace rocmforge::app {
namespace {

/// The most work of an oracle for one call: seconds on a GPU, and on a thread of a CPU.
constexpr double most_device_work = 1e12;
constexpr double most_host_work = 1e9;

bool runs_in(const KernelRegistry::AnyUse& use, const StepShape& step) {
  const auto* const attention = std::get_if<KernelUse<Attention>>(&use);
  return attention == nullptr ||
         (attention->spec.most_rows <= 1 && attention->spec.has_single_rows() == step.has_single_rows());
}

void add_to(StepCheck& all, const StepCheck& more) {
  all.calls += more.calls;
  all.elements += more.elements;
  all.reduced += more.reduced;
  all.unchecked.insert(more.unchecked.begin(), more.unchecked.end());
  all.wrong.insert(all.wrong.end(), more.wrong.begin(), more.wrong.end());
}

}  // namespace

std::string StepCheck::summary() const {
  std::string text = fmt::format("{} calls of the kernels of these steps compared with oracles, {} elements: {}", calls,
                                 elements, wrong.empty() ? "right" : fmt::format("{} wrong", wrong.size()));
  text += reduced > 0 ? fmt::format("; {} of them for fewer tokens, since the oracle takes long", reduced) : "";
  return text + (unchecked.empty() ? "" : fmt::format("; not checked: {}", fmt::join(unchecked, ", ")));
}

StepShape step_of(std::int32_t sequences, std::int32_t rows, std::int32_t before) {
  StepShape step{.name = rows == 1 ? fmt::format("{} decodes behind {}", sequences, before)
                                   : fmt::format("{} prompts of {} behind {}", sequences, rows, before),
                 .sequences = {}};
  step.sequences.assign(static_cast<std::size_t>(sequences), {before + rows, rows});
  return step;
}

std::vector<KernelRegistry::AnyUse> uses_of_step(const std::vector<PlannedOperation>& plan, const StepShape& step) {
  const std::int64_t tokens = limits_of(step).max_tokens;
  std::vector<KernelRegistry::AnyUse> uses;
  for (const PlannedOperation& operation : plan) {
    for (const KernelRegistry::AnyUse& use : operation.uses) {
      if (operation.side == Side::device && !operation.is_part(tokens) && runs_in(use, step)) {
        uses.push_back(use);
      }
    }
  }
  return uses;
}

StepCheck check_step(CheckBench& bench, const std::vector<KernelRegistry::AnyUse>& uses, const StepShape& step) {
  CaseOptions options{.limits = limits_of(step), .only_largest = true};
  options.device_work = most_device_work;
  options.host_work = most_host_work * bench.host_context().pool->num_threads();
  StepCheck found;
  const std::vector<std::string> unchecked = unchecked_operations(uses);
  found.unchecked.insert(unchecked.begin(), unchecked.end());
  const auto cases = cases_of(uses, bench.registry(), bench.device().info(), options);
  Progress progress("comparing with oracles");
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const KernelCase& one = cases[i];
    progress.update(static_cast<double>(i) / static_cast<double>(cases.size()), one.operation + " " + one.kernel);
    const CallResult result = one.run(bench);
    ++found.calls;
    found.elements += result.elements;
    found.reduced += one.is_reduced ? 1 : 0;
    if (!result.right()) {
      found.wrong.push_back(
          fmt::format("{} {} ({}), {}: {}", one.operation, one.kernel, one.spec, one.shape, result.problem));
    }
  }
  return found;
}

StepCheck check_steps(const std::string& path, const EngineOptions& options, const std::vector<StepShape>& steps) {
  const PlannedModel planned = plan_model(path, options);
  ThreadPool pool(planned.threads);
  CheckBench bench(*planned.device, *planned.registry, pool);
  bench.times_calls = false;
  StepCheck all;
  for (const StepShape& step : steps) {
    add_to(all, check_step(bench, uses_of_step(planned.model->plan(), step), step));
  }
  return all;
}

int print_step_check(const StepCheck& check) {
  std::fflush(stdout);
  for (const std::string& line : check.wrong) {
    fmt::print(stderr, "rocmforge: WRONG: {}\n", line);
  }
  return check.wrong.empty() ? 0 : 1;
}

}  // namespace rocmforge::app
