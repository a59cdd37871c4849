#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <utility>

namespace rocmforge {

/// What a device was measured to do at best: the denominators of speeds and of the roofline.
struct Ceilings {
  double read_bytes_per_second = 0.0;    ///< streaming reads of a buffer far larger than the caches
  double copy_bytes_per_second = 0.0;    ///< device to device, bytes read and written
  double matrix_flops_per_second = 0.0;  ///< f16 products summed in f32, operands in registers
};

/// Measured ceilings by device name, kept in a text file: one line per device, four columns separated by tabs.
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
