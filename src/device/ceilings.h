#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <utility>

namespace rocmforge {

/// The best speeds that were measured on a device. Other speeds are stated as fractions of them, and the roofline uses them.
struct Ceilings {
  double read_bytes_per_second = 0.0;    ///< reads of a buffer far larger than the caches
  double copy_bytes_per_second = 0.0;    ///< device to device; counts bytes read and bytes written
  double matrix_flops_per_second = 0.0;  ///< f16 products with f32 sums, operands in registers
};

/// Measured ceilings by device name, stored in a text file: one line per device, four columns separated by tabs.
class CeilingCache {
 public:
  explicit CeilingCache(std::filesystem::path file) : file_(std::move(file)) {}

  /// Empty when the device was never measured or its line can't be read.
  [[nodiscard]] std::optional<Ceilings> find(const std::string& device_name) const;
  /// Replaces the device's line. Throws Error when the file can't be written.
  void store(const std::string& device_name, const Ceilings& ceilings) const;

 private:
  std::filesystem::path file_;
};

}  // namespace rocmforge
