#include "device/runtimes.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <functional>
#include <tuple>
#include <utility>

#include "base/log.h"
#include "device/amd_system.h"
#include "device/device_label.h"
#include "device/hip_runtimes.h"

namespace rocmforge {
namespace {

/// The device that the user asks for. "hip" leaves the index empty.
struct Wanted {
  DeviceKind kind = DeviceKind::cpu;
  std::optional<int> index;
};

Wanted parse(std::string_view text) {
  const auto colon = text.find(':');
  const std::string_view kind = text.substr(0, colon);
  Wanted wanted;
  bool known = text == "cpu";
  if (kind == name(DeviceKind::hip) || kind == name(DeviceKind::cuda)) {
    wanted.kind = kind == name(DeviceKind::hip) ? DeviceKind::hip : DeviceKind::cuda;
    known = true;
    if (colon != std::string_view::npos) {
      const std::string_view digits = text.substr(colon + 1);
      int index = -1;
      const auto [end, failure] = std::from_chars(digits.data(), digits.data() + digits.size(), index);
      known = failure == std::errc() && end == digits.data() + digits.size() && index >= 0;
      wanted.index = index;
    }
  }
  if (!known) {
    throw Error(fmt::format("unknown device: {} (use auto, cpu, hip, cuda, hip:N or cuda:N)", text));
  }
  return wanted;
}

std::string label(const DeviceInfo& device) {
  return fmt::format("{} ({}, {})", device_label(device), device.name, device.architecture);
}

/// The reason why a device that was found is not used.
std::string without_kernels(const DeviceInfo& device, const KernelLibrary& kernels) {
  const std::vector<std::string> available = kernels.architectures();
  return fmt::format("{}: there are no kernels for it, {}; {}{}{}", label(device),
                     available.empty() ? "nor for any other GPU" : fmt::format("only for {}", fmt::join(available, ", ")),
                     how_to_compile_kernels(device), kernels.problem().empty() ? "" : "; " + kernels.problem(),
                     device.kind == DeviceKind::hip ? rocm_settings_text() : "");
}

std::string joined_labels(const std::vector<DeviceInfo>& devices) {
  std::vector<std::string> labels;
  for (const DeviceInfo& device : devices) {
    labels.push_back(label(device));
  }
  return fmt::format("{}", fmt::join(labels, ", "));
}

RuntimeReport find_runtime(DeviceKind kind) {
  RuntimeReport report;
  report.kind = kind;
  report.library = kind == DeviceKind::hip ? "libamdhip64.so" : "libcuda.so.1";
  try {
    kind == DeviceKind::hip ? find_hip(report) : find_cuda(report);
  } catch (const Error& error) {
    report.problem = error.what();
    report.devices.clear();
  }
  return report;
}

/// Adds information from Linux to the report. This reads every PCI device.
RuntimeReport explain(RuntimeReport report) {
  if (report.kind == DeviceKind::hip) {
    report.kernel_driver = amd_kernel_driver();
    if (report.devices.empty()) {
      const std::string reason = why_no_amd_gpu();
      report.problem += (reason.empty() ? "" : "; " + reason) + rocm_settings_text();
    }
  }
  return report;
}

std::unique_ptr<Device> open_first(const KernelLibrary& kernels, CpuIsa isa_limit) {
  for (const DeviceKind kind : {DeviceKind::hip, DeviceKind::cuda}) {
    for (const DeviceInfo& device : best_first(find_runtime(kind).devices)) {
      if (drives_displays_alone(device)) {
        log_warning("not used: {} has {} units and the host's memory; --device {} takes it", label(device),
                    device.compute_units, device_label(device));
        continue;
      }
      if (kernels.architecture_for(device).empty()) {
        log_warning("not used: {}", without_kernels(device, kernels));
        continue;
      }
      try {
        return std::make_unique<Device>(open_driver(device.kind, device.index), kernels);
      } catch (const Error& error) {
        log_warning("not used: {}: {}", label(device), error.what());
      }
    }
  }
  return std::make_unique<Device>(isa_limit);
}

}  // namespace

std::vector<RuntimeReport> find_runtimes() {
  std::vector<RuntimeReport> reports;
  reports.push_back(explain(find_runtime(DeviceKind::hip)));
  reports.push_back(find_runtime(DeviceKind::cuda));
  return reports;
}

std::vector<DeviceInfo> best_first(std::vector<DeviceInfo> devices) {
  std::ranges::stable_sort(devices, std::greater(), [](const DeviceInfo& device) {
    return std::tuple(!device.integrated, device.compute_units, device.memory_bytes);
  });
  return devices;
}

bool drives_displays_alone(const DeviceInfo& device) { return device.integrated && device.compute_units <= 2; }

std::unique_ptr<Driver> open_driver(DeviceKind kind, int index) {
  check(kind != DeviceKind::cpu, "the CPU has no driver");
  return kind == DeviceKind::hip ? open_hip_driver(index) : open_cuda_driver(index);
}

std::unique_ptr<Device> open_device(std::string_view wanted, const KernelLibrary& kernels, CpuIsa isa_limit) {
  if (wanted == "auto") {
    return open_first(kernels, isa_limit);
  }
  const auto [kind, index] = parse(wanted);
  if (kind == DeviceKind::cpu) {
    return std::make_unique<Device>(isa_limit);
  }
  const RuntimeReport report = find_runtime(kind);
  if (!report.problem.empty()) {
    throw Error(fmt::format("{}: {}", wanted, explain(report).problem));
  }
  const DeviceInfo* unserved = nullptr;
  for (const DeviceInfo& device : report.devices) {
    if (index && *index != device.index) {
      continue;
    }
    if (!kernels.architecture_for(device).empty()) {
      return std::make_unique<Device>(open_driver(kind, device.index), kernels);
    }
    unserved = &device;
  }
  throw Error(unserved != nullptr ? without_kernels(*unserved, kernels)
                                  : fmt::format("there is no device {}, only {}{}", wanted, joined_labels(report.devices),
                                                kind == DeviceKind::hip ? rocm_settings_text() : ""));
}

}  // namespace rocmforge
