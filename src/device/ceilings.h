#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <utility>

#include "device/device_info.h"

namespace rocmforge {

/// The best speeds that were measured on a device. Other speeds are stated as fractions of them, and the roofline uses them.
struct Ceilings {
  double read_bytes_per_second = 0.0;    ///< reads of a buffer far larger than the caches
  double copy_bytes_per_second = 0.0;    ///< device to device; counts bytes read and bytes written
  double matrix_flops_per_second = 0.0;  ///< f16 products with f32 sums, operands in registers
};

/// Measured ceilings by kind of device, stored in a text file: one line per kind, four columns separated by tabs. A kind is
/// a name with the architecture, the number of units and, if known, the numbers on the PCI bus, because systems without a
/// list of names call every card "AMD Radeon Graphics".
class CeilingCache {
 public:
  explicit CeilingCache(std::filesystem::path file) : file_(std::move(file)) {}

  /// Empty when the device was never measured or its line can't be read.
  [[nodiscard]] std::optional<Ceilings> find(const DeviceInfo& device) const;
  /// Replaces the device's line. Throws Error when the file can't be written.
  void store(const DeviceInfo& device, const Ceilings& ceilings) const;

 private:
  std::filesystem::path file_;
};

}  // namespace rocmforge
