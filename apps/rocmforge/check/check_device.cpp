#include "check/check_device.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>

#include "checks/merged_launches.h"
#include "checks/product_groups.h"
#include "kernels/check/device_checks.h"
#include "terminal/text.h"

namespace rocmforge::app {
namespace {

using Json = nlohmann::ordered_json;

std::string gib(std::int64_t bytes) { return human_bytes(static_cast<std::uint64_t>(bytes)); }

std::string memory_text(Device& device) {
  const DeviceInfo& info = device.info();
  std::string text = gib(info.memory_bytes);
  if (const std::optional<Driver::Memory> memory = device.memory()) {
    text += fmt::format(", {} free", gib(memory->free_bytes));
  }
  if (info.integrated) {
    text += fmt::format(", the host's ({} set apart)", gib(info.set_apart_bytes));
  } else if (info.visible_bytes > 0) {
    text += fmt::format(", {} visible to the processor", gib(info.visible_bytes));
  }
  return text;
}

/// "7.1.5: 1 device; 5.2.21153: no device". Their files may lie in a user's folder.
std::string runtimes_text(const std::vector<TriedRuntime>& runtimes) {
  std::vector<std::string> texts;
  for (const TriedRuntime& one : runtimes) {
    const std::string devices = one.devices == 1 ? "1 device" : fmt::format("{} devices", one.devices);
    std::string problem = one.problem;
    if (const std::size_t at = problem.find(one.library); !one.library.empty() && at != std::string::npos) {
      problem.replace(at, one.library.size(), std::filesystem::path(one.library).filename().string());
    }
    texts.push_back(
        fmt::format("{}: {}", one.version.empty() ? "version not known" : one.version, one.devices > 0 ? devices : problem));
  }
  return fmt::format("{}", fmt::join(texts, "; "));
}

/// The texts "... clang version ..." that compilers leave in an object of AMD's, each once.
std::string compilers_of(std::string_view object) {
  constexpr std::string_view mark = "clang version";
  constexpr std::size_t longest = 120;
  std::vector<std::string_view> found;
  for (std::size_t at = object.find(mark); at != std::string_view::npos; at = object.find(mark, at + mark.size())) {
    const std::size_t before = object.substr(0, at).rfind('\0');
    const std::size_t first = before == std::string_view::npos ? 0 : before + 1;
    const std::string_view text = object.substr(first, std::min(object.find('\0', at) - first, longest));
    if (std::ranges::find(found, text) == found.end()) {
      found.push_back(text);
    }
  }
  return fmt::format("{}", fmt::join(found, ", "));
}

/// "gfx1100, Debian clang version 19.1.7": the architecture of the device's code objects, and their compilers.
std::string kernels_text(const KernelLibrary& kernels, const DeviceInfo& device) {
  std::string text = kernels.architecture_for(device);
  if (text.empty()) {
    return text;
  }
  const KernelLibrary::Objects& objects = kernels.objects(text);
  if (const auto one = objects.find("instructions"); one != objects.end()) {
    const auto& bytes = one->second;
    const std::string compilers = compilers_of({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    text += compilers.empty() ? "" : ", " + compilers;
  }
  return text;
}

KernelCase case_of(const DeviceCheck& check) {
  return {.operation = std::string(check.step),
          .spec = "",
          .kernel = std::string(check.name),
          .shape = check.shape,
          .run = [check](CheckBench& bench) {
            bench.on_phase(CheckPhase::call);
            const DeviceCheckResult found = check.run(bench.device());
            CallResult result;
            result.problem = found.problem;
            result.oracle = "exact";
            result.elements = found.elements;
            result.seconds = found.seconds;
            result.bytes = found.bytes;
            return result;
          }};
}

}  // namespace

Json describe_gpu_machine(Device& device, const KernelLibrary& kernels, const std::vector<TriedRuntime>& runtimes) {
  const DeviceInfo& info = device.info();
  Json machine = {{"memory", memory_text(device)},
                  {"waves", fmt::format("{} lanes, {} bytes of shared memory a work-group, {} of L2 cache", info.wave_size,
                                        info.shared_memory_bytes, gib(info.l2_bytes))},
                  {"runtime", device.driver().runtime()}};
  for (const RuntimeReport& report : find_runtimes()) {
    if (report.kind == info.kind && info.vendor_runtime) {
      machine["driver"] = report.kernel_driver.empty() ? report.version : report.kernel_driver;
    }
  }
  machine["runtimes"] = info.kind == DeviceKind::hip ? runtimes_text(runtimes) : "";
  machine["kernels"] = kernels_text(kernels, info);
  machine["firmware"] = info.firmware;
  machine["PCI"] = info.pci_id;
  machine["link"] = info.pci_link;
  machine["settings"] = rocm_settings();
  return machine;
}

std::vector<KernelCase> device_cases(const DeviceInfo& device) {
  std::vector<KernelCase> cases;
  if (device.is_gpu()) {
    for (const auto& checks : {runtime_checks(device), instruction_checks(device)}) {
      for (const DeviceCheck& check : checks) {
        cases.push_back(case_of(check));
      }
    }
  }
  return cases;
}

bool is_device_check(std::string_view operation) {
  return operation == runtime_step || operation == instructions_step || operation == merged_launches_operation ||
         operation == product_groups_operation;
}

}  // namespace rocmforge::app
