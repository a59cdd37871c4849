#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/mapped_file.h"
#include "device/device_info.h"

namespace rocmforge {

/// The code objects of a program: per architecture, one object for each kernel source ("elementwise", "matvec", ...). A copy
/// shares them; their memory stays as long as one of the copies.
class KernelLibrary {
 public:
  /// Those compiled into this program; none when no GPU architecture was built.
  static KernelLibrary embedded();
  /// Those of a folder: FOLDER/gfx1100/elementwise.hsaco, FOLDER/sm_90a/elementwise.cubin. Throws Error naming the folder
  /// when it can't be read or holds no code object.
  static KernelLibrary from_folder(const std::filesystem::path& folder);

  /// "gfx1100", "gfx942", "sm_90a", ascending.
  [[nodiscard]] std::vector<std::string> architectures() const;

  /// The architecture whose objects run on the device: its own, for NVIDIA rather its "a" variant, for AMD else the generic
  /// one of its generation. Empty when there is none.
  [[nodiscard]] std::string architecture_for(const DeviceInfo& device) const;

  /// Objects by source name. Throws Error listing what is available when the architecture is missing.
  [[nodiscard]] const std::map<std::string, std::span<const std::byte>, std::less<>>& objects(
      std::string_view architecture) const;

 private:
  std::map<std::string, std::map<std::string, std::span<const std::byte>, std::less<>>, std::less<>> objects_;
  std::vector<std::shared_ptr<const MappedFile>> files_;
};

/// "`./forge kernels gfx1036` compiles them, and the next build embeds them"
std::string how_to_compile_kernels(const DeviceInfo& device);

}  // namespace rocmforge
