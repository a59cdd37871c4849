#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "device/device.h"
#include "ops/kernel_registry.h"

namespace rocmforge {

/// What a check's result holds for: another driver, other code objects or another version of the program have to be checked
/// anew.
struct CheckedDevice {
  std::string name;          ///< "AMD Radeon RX 7900 XTX"
  std::string architecture;  ///< "gfx1100"
  std::string runtime;       ///< "HIP 6.2.41"; empty for the CPU
  std::string driver;        ///< "amdgpu of Linux 6.8.0"; empty where the runtime is the driver
  std::string kernels;       ///< a hash of the device's code objects; empty for the CPU
  std::string version;       ///< of the program

  friend bool operator==(const CheckedDevice&, const CheckedDevice&) = default;
};
CheckedDevice checked_device(Device& device, std::string version);

/// What a check found of launches that are merged (Stream::allow_merging).
struct MergedLaunches {
  bool pays = false;  ///< they are right, and no slower than a launch each
  std::string found;  ///< "right, 150.1 us in place of 155.9", "hung with layers of Llama 2 7B"
};

/// The saved result of `rocmforge check` on a device.
struct CheckRecord {
  CheckedDevice device;
  std::string date;     ///< "2026-03-01", of the universal time
  std::string summary;  ///< "412 right, 1 wrong"
  std::vector<AvoidedKernel> avoided;
  std::optional<MergedLaunches> merged{};  ///< empty where none were checked
  std::optional<double> product_groups{};  ///< the fastest of product_group_choices(); empty where they were not measured
};

/// The record as files have it and as programs show it, with its summary under this name.
nlohmann::ordered_json json_of(const CheckRecord& record, const char* summary = "summary");

/// Writes the device's record into `folder`, which is made where it is missing; an older one is replaced. Throws Error
/// naming the file that can't be written.
std::filesystem::path save_check_record(const std::filesystem::path& folder, const CheckRecord& record);

/// All records of `folder`, in the order of their names; empty when there is none. A file that is not a record is left out,
/// and a warning names it.
std::vector<CheckRecord> read_check_records(const std::filesystem::path& folder);

/// The record of this device, driver, code objects and version. Empty without one, and for an empty `folder`.
std::optional<CheckRecord> find_check_record(const std::filesystem::path& folder, const CheckedDevice& device);

/// Refuses the kernels of `registry` that the record avoids, and says so in one line.
void avoid_checked_kernels(const CheckRecord& record, KernelRegistry& registry);

}  // namespace rocmforge
