#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bench/kernel_bench.h"
#include "bench/measure.h"
#include "check/check_device.h"
#include "check/check_parent.h"
#include "check/check_report.h"
#include "checks/merged_launches.h"
#include "checks/product_groups.h"
#include "command.h"
#include "engine/check_records.h"
#include "engine/plan_model.h"
#include "flags.h"
#include "kernels/register_all.h"
#include "model_path.h"
#include "terminal/terminal.h"
#include "usage_error.h"

namespace rocmforge::app {
namespace {

constexpr double usual_seconds = 180.0;

struct CheckFlags {
  std::string model;
  double seconds = usual_seconds;
  double call_seconds = 10.0;
  std::string json_file;
  std::string text_file;
  bool save = false;
  bool list = false;
  std::vector<std::string> only;
  EngineFlags engine;
};

/// What is checked, beside the engine's options.
struct CheckScope {
  std::string model;  ///< a path; empty: the list
  double seconds;
  std::vector<AvoidedKernel> only;  ///< these kernels alone; empty: all
};

using Json = nlohmann::ordered_json;

Json describe_machine(Device& device, const std::string& model, const EngineOptions& options,
                      const std::vector<TriedRuntime>& runtimes) {
  const DeviceInfo& info = device.info();
  Json machine = {{"program", fmt::format("rocmforge {}", ROCMFORGE_VERSION)},
                  {"device", info.name},
                  {"architecture", info.architecture},
                  {"units", info.compute_units}};
  if (device.is_gpu()) {
    machine.update(describe_gpu_machine(device, KernelLibrary::installed_or_from(options.kernel_dir), runtimes));
  }
  machine["model"] = model.empty() ? "none: shapes of models that people run" : model;
  return machine;
}

Json measure_ceilings(CheckSetUp& set_up) {
  Device& device = *set_up.device;
  if (!device.is_gpu()) {
    return {{"read_bytes_per_second", read_bandwidth(set_up.pool->num_threads())}};
  }
  const Ceilings found = measure_gpu_ceilings(device, *set_up.registry);
  return {{"read_bytes_per_second", found.read_bytes_per_second},
          {"copy_bytes_per_second", found.copy_bytes_per_second},
          {"matrix_flops_per_second", found.matrix_flops_per_second}};
}

/// The uses of a plan's operations on the device.
std::vector<KernelRegistry::AnyUse> uses_of(const Model& model) {
  std::vector<KernelRegistry::AnyUse> uses;
  for (const PlannedOperation& operation : model.plan()) {
    if (operation.side == Side::device) {
      uses.insert(uses.end(), operation.uses.begin(), operation.uses.end());
    }
  }
  return uses;
}

/// A device computes what its oracle can in reasonable time; with less time in all, less for each call.
CaseOptions case_options(const EngineOptions& options, const DeviceInfo& device, double seconds) {
  CaseOptions wanted;
  const double share = std::clamp(seconds / usual_seconds, 0.02, 1.0);
  wanted.host_work *= share;
  wanted.device_work *= share;
  wanted.limits.max_tokens = device.is_gpu() ? 2048 : std::min(512, options.max_batch_tokens);
  wanted.limits.max_step_tokens = device.is_gpu() ? 40'000 : 512;
  wanted.limits.max_kv_len = device.is_gpu() ? 131'073 : 8192;
  return wanted;
}

/// Reads the sensors of an AMD card; null for others.
std::function<AmdSensors()> sensors_of(const DeviceInfo& device) {
  if (device.kind != DeviceKind::hip || !device.vendor_runtime) {
    return {};
  }
  return [address = device.pci_address] { return amd_sensors(address); };
}

/// The checks of the device itself come first, then those of merged launches: with the layers of a plan, which may be empty,
/// and with those of usual models; then those of work-groups a unit.
std::vector<KernelCase> all_cases(const DeviceInfo& device, const KernelRegistry& registry,
                                  const std::vector<PlannedOperation>& plan, std::vector<KernelCase> cases) {
  const auto merges = [&device](const MatmulKernel& kernel) { return kernel.merges_launches(device); };
  std::vector<LayerProducts> layers = layers_of_models(registry, device, merges);
  std::ranges::move(norm_layers_of_models(registry, device, merges), std::back_inserter(layers));
  std::ranges::move(expert_layers_of_models(registry, device, merges), std::back_inserter(layers));
  if (std::optional<LayerProducts> own = layer_of_plan(plan, merges)) {
    layers.insert(layers.begin(), *std::move(own));
  }
  const auto chooses_groups = [](const MatmulKernel& kernel) { return kernel.name() == "amd"; };
  const std::vector<LayerProducts> timed = layers_of_models(registry, device, chooses_groups);
  std::vector<KernelCase> groups;
  if (!timed.empty()) {  // the last one, whose weights are the largest
    groups = product_group_cases(timed.back(), product_group_choices(), choose_product_groups);
  }
  std::vector<KernelCase> all = device_cases(device);
  for (std::vector<KernelCase>& more :
       std::array{merged_launch_cases(layers, registry, device), std::move(groups), std::move(cases)}) {
    all.insert(all.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
  }
  return all;
}

CheckSetUp set_up_of_model(const CheckScope& scope, const EngineOptions& options,
                           const std::vector<TriedRuntime>& runtimes) {
  PlannedModel planned = plan_model(scope.model, options);
  CheckSetUp set_up;
  const DeviceInfo& device = planned.device->info();
  const std::vector<KernelRegistry::AnyUse> uses = uses_of(*planned.model);
  CaseOptions wanted = case_options(options, device, scope.seconds);
  wanted.limits.max_kv_len =
      std::min<std::int64_t>(wanted.limits.max_kv_len, context_length(options, planned.model->config()) + 1);
  set_up.cases =
      all_cases(device, *planned.registry, planned.model->plan(), cases_of(uses, *planned.registry, device, wanted));
  set_up.checked = checked_device(*planned.device, ROCMFORGE_VERSION);
  set_up.sensors = sensors_of(device);
  set_up.machine = describe_machine(*planned.device, planned.file->path().filename().string(), options, runtimes);
  if (const auto missing = unchecked_operations(uses); !missing.empty()) {
    set_up.machine["not checked"] = fmt::format("{}", fmt::join(missing, ", "));
  }
  set_up.pool = std::make_unique<ThreadPool>(planned.threads);
  set_up.device = std::move(planned.device);
  set_up.registry = std::move(planned.registry);
  return set_up;
}

CheckSetUp set_up_of_list(const CheckScope& scope, const EngineOptions& options, const std::vector<TriedRuntime>& runtimes) {
  CheckSetUp set_up;
  const CpuIsa limit = options.isa.empty() ? CpuIsa::avx512 : cpu_isa_from_name(options.isa).value_or(CpuIsa::avx512);
  set_up.device = open_device(options.device, KernelLibrary::installed_or_from(options.kernel_dir), limit);
  auto registry = std::make_unique<KernelRegistry>();
  register_all_kernels(*registry, set_up.device.get());
  refuse_kernels(options, *registry);
  const DeviceInfo& device = set_up.device->info();
  CaseOptions wanted = case_options(options, device, scope.seconds);
  wanted.each_code_once = scope.only.empty();
  set_up.cases = all_cases(device, *registry, {}, cases_of(uses_of_models(*registry, device), *registry, device, wanted));
  set_up.checked = checked_device(*set_up.device, ROCMFORGE_VERSION);
  set_up.sensors = sensors_of(device);
  set_up.machine = describe_machine(*set_up.device, {}, options, runtimes);
  set_up.pool = std::make_unique<ThreadPool>(options.threads > 0 ? options.threads : available_processors());
  set_up.registry = std::move(registry);
  return set_up;
}

/// A line on standard error, rewritten on a terminal; elsewhere one line now and then.
class ProgressLine {
 public:
  void show(std::size_t done, std::size_t all, const CaseReport& next) {
    const std::string line =
        fmt::format("checking {} of {}: {} {}, {}", done + 1, all, next.operation, next.kernel, next.shape);
    if (terminal_) {
      fmt::print(stderr, "\r\x1b[K{}", line.substr(0, terminal_width(stderr, 80) - 1));
      std::fflush(stderr);
    } else if (const auto now = CheckClock::now(); now >= next_) {
      next_ = now + std::chrono::seconds(20);
      fmt::print(stderr, "rocmforge: {}\n", line);
    }
  }
  void clear() const {
    if (terminal_) {
      fmt::print(stderr, "\r\x1b[K");
    }
  }

 private:
  bool terminal_ = ::isatty(STDERR_FILENO) != 0;
  CheckClock::time_point next_ = CheckClock::now() + std::chrono::seconds(20);
};

void write_file(const std::string& path, const std::string& content) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << content;
  file.close();
  if (!file) {
    throw Error(fmt::format("{}: can't be written", path));
  }
}

/// Kernels that failed are avoided from now on, beside those that the user left out of this check.
void save(const CheckRun& run, const EngineOptions& options) {
  const std::filesystem::path folder = checks_folder();
  if (folder.empty()) {
    throw Error("--save: neither $XDG_STATE_HOME nor $HOME names a folder");
  }
  CheckRecord record{.device = run.checked,
                     .date = fmt::format("{:%Y-%m-%d}", fmt::gmtime(std::time(nullptr))),
                     .summary = summary_of(run),
                     .avoided = failed_kernels(run),
                     .merged = merged_launches_of(run),
                     .product_groups = product_groups_of(run)};
  for (AvoidedKernel kernel : options.without) {
    kernel.reason += " was given to the check";
    record.avoided.push_back(std::move(kernel));
  }
  fmt::print("saved: {}\n", save_check_record(folder, record).string());
  if (record.merged) {
    fmt::print("merged launches are {} from now on: {}\n", record.merged->pays ? "on" : "off", record.merged->found);
  }
  if (record.product_groups) {
    fmt::print("products of one token have {:g} work-groups a unit from now on\n", *record.product_groups);
  }
}

/// Throws Error where no call is of these kernels.
void keep_only(const std::vector<AvoidedKernel>& only, std::vector<KernelCase>& cases) {
  if (only.empty()) {
    return;
  }
  std::erase_if(cases, [&](const KernelCase& one) { return find_avoided(only, one.operation, one.kernel) == nullptr; });
  if (cases.empty()) {
    throw Error(fmt::format("{}: no call of this check is of this kernel (--list shows all)", only.front().reason));
  }
}

CheckSetUp make_set_up(const CheckScope& scope, const EngineOptions& options, const std::vector<TriedRuntime>& runtimes) {
  CheckSetUp set_up =
      scope.model.empty() ? set_up_of_list(scope, options, runtimes) : set_up_of_model(scope, options, runtimes);
  keep_only(scope.only, set_up.cases);
  return set_up;
}

/// The calls in their order. Nothing runs.
void print_list(const std::vector<KernelCase>& cases) {
  double work = 0.0;
  for (const KernelCase& one : cases) {
    work += one.work;
    fmt::print("{:.1e}  {} {} {}, {}\n", one.work, one.operation, one.kernel, one.spec, one.shape);
  }
  fmt::print("{} calls; their oracles compute {:.1e} products\n", cases.size(), work);
}

int check_kernels(const CheckFlags& flags) {
  EngineOptions options = flags.engine.options();
  options.checks_folder.clear();  // avoided kernels are checked again
  if (flags.save && !flags.only.empty()) {
    throw UsageError("--save: a check of some kernels alone (--only) is not kept");
  }
  const CheckScope scope = {.model = flags.model.empty() ? std::string() : find_model(flags.model),
                            .seconds = flags.seconds,
                            .only = kernels_of_flag("--only", flags.only)};
  if (flags.list) {
    print_list(make_set_up(scope, options, {}).cases);
    return 0;
  }
  const auto milliseconds = [](double seconds) {
    return std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1000.0));
  };
  ProgressLine progress;
  ParentOptions wanted;
  wanted.total = milliseconds(flags.seconds);
  wanted.call = milliseconds(flags.call_seconds);
  wanted.progress = [&](std::size_t done, std::size_t all, const CaseReport& next) { progress.show(done, all, next); };
  // In this process, which never opens a device itself.
  const bool may_be_amd = options.device != "cpu" && !options.device.starts_with("cuda");
  const std::vector<TriedRuntime> runtimes = may_be_amd ? list_hip_runtimes() : std::vector<TriedRuntime>();
  const CheckRun run = check_in_children(
      [&] {
        CheckSetUp set_up = make_set_up(scope, options, runtimes);
        set_up.ceilings = measure_ceilings;
        return set_up;
      },
      wanted);
  progress.clear();
  fmt::print("{}", screen_report(run));
  if (!flags.json_file.empty()) {
    write_file(flags.json_file, json_report(run).dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
  }
  if (!flags.text_file.empty()) {
    write_file(flags.text_file, text_report(run));
  }
  if (run.count(CaseVerdict::right) == 0 && !run.failed()) {
    throw Error("no kernel was checked: --seconds gives more time");
  }
  if (flags.save) {
    save(run, options);
  }
  return run.failed() ? 1 : 0;
}

}  // namespace

Command check_command() {
  auto flags = std::make_shared<CheckFlags>();
  Command command = {
      .name = "check",
      .summary = "Compare every kernel that this device would use with plain ones, and time it",
      .notes =
          "Outputs are poisoned before each call, each call runs twice, on a GPU the second time beside other work, and "
          "every "
          "element is compared. A kernel that is wrong, does not end or ends its process is named, and the exit code is 1. "
          "Speeds are shown beside those of memory and matrix products measured in the same run; weights smaller than the "
          "caches are read from these. The predictions of AMD's cost model are not part of the program.",
      .examples = {"rocmforge check", "rocmforge check model.gguf --text report.md",
                   "rocmforge check --device hip:1 --save"},
      .options =
          {{"MODEL", &flags->model,
            "GGUF file, or the name of one: the operations of its plan; without it a list that covers all operations "
            "and formats"},
           {.names = "--seconds",
            .target = &flags->seconds,
            .meaning = "The most time; shapes that are not reached are counted",
            .range = {.least = 1.0, .most = 86400.0}},
           {.names = "--call-seconds",
            .target = &flags->call_seconds,
            .meaning = "A kernel that takes longer hangs",
            .range = {.least = 0.1, .most = 3600.0}},
           {"--only", &flags->only,
            "Check this kernel only (names: rocmforge devices), with all shapes of all its uses; repeatable",
            "[OPERATION:]KERNEL"},
           {"--list", &flags->list, "Print the calls in their order, with the products of each oracle, and run nothing"},
           {"--json", &flags->json_file, "Write the whole report as JSON", "FILE"},
           {"--text", &flags->text_file, "Write the report as Markdown, short enough for an issue of a tracker", "FILE"},
           {"--save", &flags->save,
            "Keep the result for this device, driver, kernels and version: later runs do not use kernels that failed, "
            "and merge launches where that was right and no slower"}},
      .action = [flags] { return check_kernels(*flags); }};
  flags->engine.add_to(command);
  command.drop("--no-avoid");
  command.drop("--merge-launches");
  return command;
}

}  // namespace rocmforge::app
