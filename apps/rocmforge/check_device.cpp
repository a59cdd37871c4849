#include "check_device.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <optional>
#include <string>

#include "kernels/check/device_checks.h"
#include "text.h"

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
    texts.push_back(fmt::format("{}: {}", one.version.empty() ? "version not known" : one.version,
                                one.devices > 0 ? devices : problem));
  }
  return fmt::format("{}", fmt::join(texts, "; "));
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

Json describe_gpu_machine(Device& device, const std::vector<TriedRuntime>& runtimes) {
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

bool is_device_check(std::string_view operation) { return operation == runtime_step || operation == instructions_step; }

}  // namespace rocmforge::app
