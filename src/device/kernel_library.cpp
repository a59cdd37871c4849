#include "device/kernel_library.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <system_error>

#include "base/error.h"
#include "device/embedded_kernels.h"

namespace rocmforge {
namespace {

namespace fs = std::filesystem;

std::string join(const std::vector<std::string>& words) { return fmt::format("{}", fmt::join(words, ", ")); }

/// The ending of an architecture's code objects; empty for a folder that is no architecture.
std::string_view code_object_extension(std::string_view architecture) {
  return architecture.starts_with("gfx") ? ".hsaco" : architecture.starts_with("sm_") ? ".cubin" : "";
}

/// Entries in the order of their names, so that what is loaded and reported does not depend on the file system.
std::vector<fs::path> entries(const fs::path& folder) {
  std::error_code failure;
  std::vector<fs::path> paths;
  for (fs::directory_iterator entry(folder, failure), end; !failure && entry != end; entry.increment(failure)) {
    paths.push_back(entry->path());
  }
  if (failure) {
    throw Error(fmt::format("cannot read the kernel folder {}: {}", folder.string(), failure.message()));
  }
  std::ranges::sort(paths);
  return paths;
}

/// The name without the features behind its colon.
std::string own_name(const DeviceInfo& device) { return device.architecture.substr(0, device.architecture.find(':')); }

/// The compiler's target for all cards of a generation. Of CDNA before gfx942 there is none.
std::string_view generic_name(std::string_view architecture) {
  struct Generation {
    std::string_view generic;
    std::string_view members;  ///< between blanks
  };
  constexpr std::array generations{
      Generation{"gfx9-4-generic", " gfx942 gfx950 "}, Generation{"gfx10-1-generic", " gfx1010 gfx1011 gfx1012 gfx1013 "},
      Generation{"gfx10-3-generic", " gfx1030 gfx1031 gfx1032 gfx1033 gfx1034 gfx1035 gfx1036 "},
      Generation{"gfx11-generic", " gfx1100 gfx1101 gfx1102 gfx1103 gfx1150 gfx1151 gfx1152 gfx1153 "},
      Generation{"gfx12-generic", " gfx1200 gfx1201 "}};
  const std::string wanted = fmt::format(" {} ", architecture);
  const auto found = std::ranges::find_if(
      generations, [&](const Generation& generation) { return generation.members.find(wanted) != std::string_view::npos; });
  return found != generations.end() ? found->generic : std::string_view();
}

/// Both vendors' code objects are ELF files.
bool is_elf(std::span<const std::byte> bytes) {
  constexpr std::array magic{std::byte{0x7f}, std::byte{'E'}, std::byte{'L'}, std::byte{'F'}};
  return bytes.size() > magic.size() && std::equal(magic.begin(), magic.end(), bytes.begin());
}

}  // namespace

KernelLibrary KernelLibrary::embedded() {
  KernelLibrary library;
  for (const EmbeddedKernel& kernel : embedded_kernels()) {
    library.objects_[kernel.architecture][kernel.object] = {kernel.begin, kernel.end};
  }
  return library;
}

KernelLibrary KernelLibrary::from_folder(const fs::path& folder) {
  KernelLibrary library;
  for (const fs::path& architecture : entries(folder)) {
    const std::string name = architecture.filename().string();
    const std::string_view extension = code_object_extension(name);
    if (extension.empty() || !fs::is_directory(architecture)) {
      continue;
    }
    for (const fs::path& path : entries(architecture)) {
      if (path.extension() != extension) {
        continue;
      }
      const MappedFile& file = *library.files_.emplace_back(std::make_shared<const MappedFile>(path));
      if (!is_elf(file.bytes())) {
        throw Error(fmt::format("{}: not a code object (it does not begin as an ELF file)", path.string()));
      }
      library.objects_[name][path.stem().string()] = file.bytes();
    }
  }
  if (library.objects_.empty()) {
    throw Error(fmt::format("the kernel folder {} holds no code object such as gfx1100/NAME.hsaco or sm_90a/NAME.cubin",
                            folder.string()));
  }
  return library;
}

std::vector<std::string> KernelLibrary::architectures() const {
  std::vector<std::string> names;
  for (const auto& [name, objects] : objects_) {
    names.push_back(name);
  }
  return names;
}

std::string KernelLibrary::architecture_for(const DeviceInfo& device) const {
  // "gfx942:sramecc+:xnack-": the features after the colon are settings of the device. Objects compiled without naming
  // them run under either setting.
  const std::string own = own_name(device);
  if (device.kind == DeviceKind::cuda && objects_.contains(own + "a")) {
    return own + "a";
  }
  if (device.is_gpu() && objects_.contains(own)) {
    return own;
  }
  const std::string generic(device.kind == DeviceKind::hip ? generic_name(own) : "");
  return objects_.contains(generic) ? generic : std::string();
}

std::string how_to_compile_kernels(const DeviceInfo& device) {
  return fmt::format("`./forge kernels {}` compiles them, and the next build embeds them", own_name(device));
}

const std::map<std::string, std::span<const std::byte>, std::less<>>& KernelLibrary::objects(
    std::string_view architecture) const {
  const auto found = objects_.find(architecture);
  if (found == objects_.end()) {
    throw Error(
        fmt::format("no kernels for {}: {}", architecture,
                    objects_.empty() ? "there are none for any GPU" : "there are some for " + join(architectures())));
  }
  return found->second;
}

}  // namespace rocmforge
