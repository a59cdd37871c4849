#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include "base/json.h"
#include "base/thread_pool.h"
#include "bench/measure.h"
#include "command.h"
#include "device/device.h"
#include "device/device_label.h"
#include "engine/check_records.h"
#include "flags.h"
#include "kernels/register_all.h"
#include "terminal/progress.h"
#include "terminal/text.h"

namespace rocmforge::app {
namespace {

void sort_by_priority(nlohmann::ordered_json& kernels) {
  std::stable_sort(kernels.begin(), kernels.end(),
                   [](const auto& a, const auto& b) { return a["priority"] > b["priority"]; });
}

/// By operation, each with the kernels of the highest priority first.
nlohmann::ordered_json list_all_kernels() {
  KernelRegistry registry;
  register_all_kernels(registry);
  auto out = nlohmann::ordered_json::object();
  registry.for_each([&](std::string_view operation, const auto& kernel) {
    out[std::string(operation)].push_back(
        {{"name", kernel.name()}, {"device", name(kernel.device())}, {"priority", static_cast<int>(kernel.priority())}});
  });
  for (auto& kernels : out) {
    sort_by_priority(kernels);
  }
  return out;
}

nlohmann::ordered_json describe_cpu(const DeviceInfo& cpu, double bandwidth) {
  return {{"kind", name(cpu.kind)},
          {"name", cpu.name},
          {"architecture", cpu.architecture},
          {"instruction_set", name(cpu.cpu_isa)},
          {"processors", available_processors()},
          {"memory_bytes", cpu.memory_bytes},
          {"read_bytes_per_second", bandwidth}};
}

nlohmann::ordered_json describe_gpu(const DeviceInfo& gpu, const KernelLibrary& library) {
  return {{"kind", name(gpu.kind)},
          {"index", gpu.index},
          {"name", gpu.name},
          {"architecture", gpu.architecture},
          {"kernels", library.architecture_for(gpu)},
          {"compute_units", gpu.compute_units},
          {"wave_size", gpu.wave_size},
          {"shared_memory_bytes", gpu.shared_memory_bytes},
          {"l2_bytes", gpu.l2_bytes},
          {"memory_bytes", gpu.memory_bytes},
          {"integrated", gpu.integrated},
          {"set_apart_bytes", gpu.set_apart_bytes}};
}

/// Code objects by architecture.
nlohmann::ordered_json describe_library(const KernelLibrary& library) {
  auto out = nlohmann::ordered_json::object();
  for (const std::string& architecture : library.architectures()) {
    out[architecture] = library.object_names(architecture);
  }
  return out;
}

nlohmann::ordered_json describe_tried(const std::vector<TriedRuntime>& runtimes) {
  auto out = nlohmann::ordered_json::array();
  for (const TriedRuntime& tried : runtimes) {
    out.push_back(
        {{"library", tried.library}, {"version", tried.version}, {"devices", tried.devices}, {"problem", tried.problem}});
  }
  return out;
}

/// The saved results of `rocmforge check`, for other versions of drivers and program too.
nlohmann::ordered_json describe_checks(const std::vector<CheckRecord>& records) {
  auto out = nlohmann::ordered_json::array();
  for (const CheckRecord& record : records) {
    out.push_back(json_of(record, "result"));
  }
  return out;
}

/// Why a check of the device is no longer valid; empty when it is. `kernels` as CheckedDevice has them.
std::string_view why_not_valid(const CheckedDevice& checked, const DeviceInfo& device, const std::string& kernels) {
  return checked.version != ROCMFORGE_VERSION             ? "; not valid for this version"
         : checked.driver != device.kernel_driver         ? "; not valid for this driver"
         : !kernels.empty() && checked.kernels != kernels ? "; not valid for these kernels"
                                                          : "";
}

/// A line for each saved check of a device, or one that says that there is none. The runtime is compared when the device is
/// opened.
void print_checks(const DeviceInfo& device, const KernelLibrary& library, const std::vector<CheckRecord>& records) {
  const std::string objects = device.is_gpu() ? library.architecture_for(device) : std::string();
  bool any = false;
  for (const CheckRecord& record : records) {
    if (record.device.name != device.name || record.device.architecture != device.architecture) {
      continue;
    }
    any = true;
    fmt::print("        checked on {} with{}{} program {}: {}{}\n", record.date, record.device.runtime.empty() ? "" : " ",
               record.device.runtime.empty() ? "" : record.device.runtime + ",", record.device.version, record.summary,
               why_not_valid(record.device, device, objects.empty() ? objects : library.hash_of_objects(objects)));
    if (record.merged) {
      fmt::print("        merged launches: {} ({})\n", record.merged->pays ? "on" : "off", record.merged->found);
    }
    if (record.product_groups) {
      fmt::print("        products of one token: {:g} work-groups a unit\n", *record.product_groups);
    }
  }
  if (!any) {
    fmt::print("        never checked (rocmforge check --save)\n");
  }
}

int print_devices_json(const DeviceInfo& cpu, double bandwidth, const KernelLibrary& library,
                       const std::vector<TriedRuntime>& hip_runtimes) {
  auto devices = nlohmann::ordered_json::array({describe_cpu(cpu, bandwidth)});
  auto runtimes = nlohmann::ordered_json::array();
  for (const RuntimeReport& report : find_runtimes()) {
    runtimes.push_back(
        {{"kind", name(report.kind)},
         {"library", report.library},
         {"version", report.version},
         {"kernel_driver", report.kernel_driver},
         {"problem", report.problem},
         {"devices", report.devices.size()},
         {"found", describe_tried(report.kind == DeviceKind::hip ? hip_runtimes : std::vector<TriedRuntime>())}});
    for (const DeviceInfo& gpu : report.devices) {
      devices.push_back(describe_gpu(gpu, library));
    }
  }
  print_json({{"devices", devices},
              {"runtimes", runtimes},
              {"gpu_kernels", !library.architectures().empty()},
              {"code_objects", describe_library(library)},
              {"code_objects_problem", library.problem()},
              {"checks", describe_checks(read_check_records(checks_folder()))},
              {"kernels", list_all_kernels()}});
  return 0;
}

std::string whole_bytes(std::int64_t bytes) { return human_bytes(static_cast<std::uint64_t>(bytes)); }

/// What DeviceInfo::compute_units counts.
std::string_view unit_name(const DeviceInfo& gpu) {
  if (gpu.kind == DeviceKind::cuda) {
    return "multiprocessors";
  }
  return gpu.architecture.starts_with("gfx9") ? "compute units" : "work-group processors";
}

void print_gpu(const DeviceInfo& gpu, const KernelLibrary& library, const std::vector<CheckRecord>& checks) {
  fmt::print("{:<8}{}\n", device_label(gpu), gpu.name);
  fmt::print("        {}, {} {}, waves of {}, {} of {} a work-group, {} of L2 cache\n", gpu.architecture, gpu.compute_units,
             unit_name(gpu), gpu.wave_size, whole_bytes(gpu.shared_memory_bytes),
             gpu.kind == DeviceKind::cuda ? "shared memory" : "LDS", whole_bytes(gpu.l2_bytes));
  const std::string kernels = library.architecture_for(gpu);
  fmt::print("        {} of memory{}; {}\n", whole_bytes(gpu.memory_bytes),
             gpu.integrated ? fmt::format(", the host's ({} of it set apart)", whole_bytes(gpu.set_apart_bytes)) : "",
             kernels.empty() ? fmt::format("not used: there are no kernels for it; {}", how_to_compile_kernels(gpu))
                             : fmt::format("runs the kernels for {}", kernels));
  print_checks(gpu, library, checks);
}

/// HIP runtimes other than the one in use, which may be called by the name of a link.
void print_other_runtimes(const std::vector<TriedRuntime>& hip_runtimes, const RuntimeReport& used) {
  std::error_code ignored;
  const std::string in_use = std::filesystem::weakly_canonical(used.library, ignored).string();
  for (const TriedRuntime& found : hip_runtimes) {
    if (found.library != in_use) {
      fmt::print("        not used: {} {}: {}\n", found.library, found.version,
                 found.devices > 0 ? fmt::format("{} {}", found.devices, found.devices == 1 ? "device" : "devices")
                                   : found.problem);
    }
  }
}

void print_gpus(const KernelLibrary& library, const std::vector<TriedRuntime>& hip_runtimes,
                const std::vector<CheckRecord>& checks) {
  for (const RuntimeReport& report : find_runtimes()) {
    const std::string_view runtime = report.kind == DeviceKind::hip ? "HIP runtime" : "CUDA driver";
    if (report.version.empty()) {
      fmt::print("{:<8}no {}: {}\n", name(report.kind), runtime, report.problem);
    } else {
      fmt::print("{:<8}{} {}, {}{}{}\n", name(report.kind), runtime, report.version, report.library,
                 report.problem.empty() ? "" : ": ", report.problem);
    }
    if (report.kind == DeviceKind::hip) {
      print_other_runtimes(hip_runtimes, report);
    }
    if (!report.kernel_driver.empty()) {
      fmt::print("        kernel driver {}\n", report.kernel_driver);
    }
    for (const DeviceInfo& gpu : report.devices) {
      print_gpu(gpu, library, checks);
    }
  }
  std::vector<std::string> counts;
  for (const std::string& architecture : library.architectures()) {
    counts.push_back(fmt::format("{} ({})", architecture, library.object_names(architecture).size()));
  }
  fmt::print("code    {}\n", counts.empty() ? "none for GPUs: this build has no GPU kernels"
                                            : fmt::format("objects for {}", fmt::join(counts, ", ")));
  if (!library.problem().empty()) {
    fmt::print("        {}\n", library.problem());
  }
}

int devices(bool json, const std::string& kernel_folder) {
  const KernelLibrary library = KernelLibrary::installed_or_from(kernel_folder);
  const std::vector<TriedRuntime> hip_runtimes = list_hip_runtimes();
  const DeviceInfo cpu = cpu_device_info();
  double bandwidth = 0.0;
  {
    const Progress progress("measuring the memory");
    bandwidth = read_bandwidth(available_processors());
  }
  if (json) {
    return print_devices_json(cpu, bandwidth, library, hip_runtimes);
  }
  fmt::print("cpu     {}\n", cpu.name);
  fmt::print("        instruction set {}\n", name(cpu.cpu_isa));
  fmt::print("        {} processors, {} of memory, read at {:.1f} GB/s by all of them\n", available_processors(),
             whole_bytes(cpu.memory_bytes), bandwidth / 1e9);
  const std::vector<CheckRecord> checks = read_check_records(checks_folder());
  print_checks(cpu, library, checks);
  print_gpus(library, hip_runtimes, checks);
  fmt::print("\nkernels by operation, highest priority wins where it can\n");
  Table table({"operation", "kernel", "device", ">priority"});
  const auto kernels = list_all_kernels();
  for (const auto& [operation, entries] : kernels.items()) {
    for (const auto& entry : entries) {
      table.add({operation, entry["name"], entry["device"], fmt::format("{}", entry["priority"].get<int>())});
    }
  }
  table.print(stdout);
  return 0;
}

}  // namespace

Command devices_command() {
  struct Flags {
    bool json = false;
    std::string kernel_folder;
  };
  auto flags = std::make_shared<Flags>();
  return {.name = "devices",
          .summary = "The processors and GPUs, the runtimes that were found, and the kernels there are",
          .examples = {"rocmforge devices", "rocmforge devices --json"},
          .options = {json_option(flags->json), kernel_dir_option(flags->kernel_folder)},
          .action = [flags] { return devices(flags->json, flags->kernel_folder); }};
}

}  // namespace rocmforge::app
