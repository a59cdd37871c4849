#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "device/device.h"
#include "ops/kernel_registry.h"

namespace rocmforge {

/// What a check's result holds for: another driver or another version of the program has to be checked anew.
struct CheckedDevice {
  std::string name;          ///< "AMD Radeon RX 7900 XTX"
  std::string architecture;  ///< "gfx1100"
  std::string runtime;       ///< "HIP 6.2.41"; empty for the CPU
  std::string version;       ///< of the program

  friend bool operator==(const CheckedDevice&, const CheckedDevice&) = default;
};
CheckedDevice checked_device(Device& device, std::string version);

/// The saved result of `rocmforge check` on a device.
struct CheckRecord {
  CheckedDevice device;
  std::string date;     ///< "2026-03-01", of the universal time
  std::string summary;  ///< "412 right, 1 wrong"
  std::vector<AvoidedKernel> avoided;
};

/// Writes the device's record into `folder`, which is made where it is missing; an older one is replaced. Throws Error
/// naming the file that can't be written.
std::filesystem::path save_check_record(const std::filesystem::path& folder, const CheckRecord& record);

/// All records of `folder`, in the order of their names; empty when there is none. A file that is not a record is left out,
/// and a warning names it.
std::vector<CheckRecord> read_check_records(const std::filesystem::path& folder);

/// Refuses the kernels of `registry` that the device's record in `folder` avoids, and says so in one line.
void avoid_checked_kernels(const std::filesystem::path& folder, const CheckedDevice& device, KernelRegistry& registry);

}  // namespace rocmforge
