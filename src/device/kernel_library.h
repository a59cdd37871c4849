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

/// The file name of an archive of code objects (kernel_archive.h), in a kernel folder or in the folder of an installation.
inline constexpr std::string_view kernel_archive_name = "kernels.archive";

/// The code objects of a program: for each architecture, one object for each kernel source ("elementwise", "matvec", ...).
/// Copies share the objects, whose memory is valid as long as one of the copies exists. Objects of an archive are decoded at
/// the first access, all objects of one architecture at a time.
class KernelLibrary {
 public:
  using Objects = std::map<std::string, std::span<const std::byte>, std::less<>>;

  /// The code objects that were built into this program; none when no GPU architecture was built.
  static KernelLibrary embedded();
  /// The embedded code objects, and for other architectures those of the archive beside the program (kernel_archive_beside).
  /// Does not throw Error for that archive: problem() returns what is wrong with it.
  static KernelLibrary installed();
  /// The code objects of a folder: FOLDER/gfx1100/elementwise.hsaco, FOLDER/sm_90a/elementwise.cubin, and for architectures
  /// without a folder those of FOLDER/kernels.archive. If the path is a file, those of this archive. Throws Error with the
  /// path when it can't be read, has no code object, or is an archive of another version of the kernels.
  static KernelLibrary from_folder(const std::filesystem::path& path);
  /// installed() when `folder` is empty, else from_folder().
  static KernelLibrary installed_or_from(const std::string& folder) {
    return folder.empty() ? installed() : from_folder(folder);
  }

  /// "gfx1100", "gfx942", "sm_90a", in ascending order.
  [[nodiscard]] std::vector<std::string> architectures() const;

  /// The architecture whose objects run on the device. NVIDIA: its "a" variant, else its own; AMD: its own, else the generic
  /// one of its generation. Empty when there is none.
  [[nodiscard]] std::string architecture_for(const DeviceInfo& device) const;

  /// Objects by source name. Throws Error with a list of the available architectures when this one is missing, and Error
  /// with the archive's name when its data are damaged. Threads may call this at the same time.
  [[nodiscard]] const Objects& objects(std::string_view architecture) const;
  /// The names of the objects, in ascending order. Nothing is decoded. Throws like objects() when the architecture is
  /// missing.
  [[nodiscard]] std::vector<std::string> object_names(std::string_view architecture) const;

  /// 16 hexadecimal digits that tell the objects of an architecture from other objects. Throws like objects().
  [[nodiscard]] std::string hash_of_objects(std::string_view architecture) const;

  /// What is wrong with the archive beside the program; begins with its path. Empty when it can be used or there is none.
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

/// The compiler's target for all cards of a generation: "gfx11-generic" for "gfx1103", and for a "gfx1154" that nobody knows
/// yet. Empty when there is none, as for CDNA before gfx942.
std::string_view generic_architecture(std::string_view architecture);

/// The file of the program or library that holds this code. Empty when the loader does not know it.
std::filesystem::path own_file();

/// The archive of an installed program or library: PREFIX/share/rocmforge/kernels.archive when `file` is
/// PREFIX/bin/rocmforge, PREFIX/lib/librocmforge.so or PREFIX/lib/x86_64-linux-gnu/librocmforge.so. Empty when it does not
/// exist.
std::filesystem::path kernel_archive_beside(const std::filesystem::path& file);

/// "`./forge kernels gfx1036` compiles them, and the next build embeds them"
std::string how_to_compile_kernels(const DeviceInfo& device);

}  // namespace rocmforge
