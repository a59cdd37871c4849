#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/mapped_file.h"
#include "device/device_info.h"

namespace rocmforge {

class PackedKernels;

/// The file's name of an archive of code objects (kernel_archive.h), in the folders where it is looked for.
inline constexpr std::string_view kernel_archive_name = "kernels.archive";

/// The code objects of a program: per architecture, one object for each kernel source ("elementwise", "matvec", ...). A copy
/// shares them; their memory stays as long as one of the copies. Objects of an archive are decoded when they are first asked
/// for, those of one architecture at a time.
class KernelLibrary {
 public:
  using Objects = std::map<std::string, std::span<const std::byte>, std::less<>>;

  /// Those compiled into this program; none when no GPU architecture was built.
  static KernelLibrary embedded();
  /// The same, and for architectures that they lack those of the archive beside the program (kernel_archive_beside). Never
  /// throws for that archive: problem() says what is wrong with it.
  static KernelLibrary installed();
  /// Those of a folder: FOLDER/gfx1100/elementwise.hsaco, FOLDER/sm_90a/elementwise.cubin, and for architectures that have
  /// no folder those of FOLDER/kernels.archive. Or those of an archive, when the path is a file. Throws Error naming the
  /// path when it can't be read, holds no code object, or is an archive for another version of the kernels.
  static KernelLibrary from_folder(const std::filesystem::path& path);
  /// installed() when no folder is named.
  static KernelLibrary installed_or_from(const std::string& folder) {
    return folder.empty() ? installed() : from_folder(folder);
  }

  /// "gfx1100", "gfx942", "sm_90a", ascending.
  [[nodiscard]] std::vector<std::string> architectures() const;

  /// The architecture whose objects run on the device: its own, for NVIDIA rather its "a" variant, for AMD else the generic
  /// one of its generation. Empty when there is none.
  [[nodiscard]] std::string architecture_for(const DeviceInfo& device) const;

  /// Objects by source name. Throws Error listing what is available when the architecture is missing, and one that names the
  /// archive when it is damaged there. Threads may ask at the same time.
  [[nodiscard]] const Objects& objects(std::string_view architecture) const;
  /// Their names, without decoding anything. Ascending; throws like objects() when the architecture is missing.
  [[nodiscard]] std::vector<std::string> object_names(std::string_view architecture) const;

  /// What is wrong with the archive beside the program, beginning with its path. Empty when it serves, or there is none.
  [[nodiscard]] const std::string& problem() const { return problem_; }

 private:
  using Source = std::variant<Objects, std::shared_ptr<PackedKernels>>;

  [[nodiscard]] const Source& source(std::string_view architecture) const;
  void add_folder(const std::filesystem::path& folder);
  void add_archive(std::span<const std::byte> bytes, const std::string& origin);
  void add_archive_file(const std::filesystem::path& path);

  std::map<std::string, Source, std::less<>> sources_;  ///< by architecture
  std::vector<std::shared_ptr<const MappedFile>> files_;
  std::string problem_;
};

/// The compiler's target for all cards of a generation: "gfx11-generic" for "gfx1103". Empty where there is none, as for
/// CDNA before gfx942.
std::string_view generic_architecture(std::string_view architecture);

/// Where the archive of an installed program or library lies: PREFIX/share/rocmforge/kernels.archive for `file`
/// PREFIX/bin/rocmforge, PREFIX/lib/librocmforge.so or PREFIX/lib/x86_64-linux-gnu/librocmforge.so. Empty when it isn't
/// there.
std::filesystem::path kernel_archive_beside(const std::filesystem::path& file);

/// "`./forge kernels gfx1036` compiles them, and the next build embeds them"
std::string how_to_compile_kernels(const DeviceInfo& device);

}  // namespace rocmforge
