#include "device/kernel_library.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <mutex>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "device/embedded_kernels.h"
#include "device/kernel_archive.h"

namespace rocmforge {
namespace {

namespace fs = std::filesystem;

std::string join(const std::vector<std::string>& words) { return fmt::format("{}", fmt::join(words, ", ")); }

/// The file extension of an architecture's code objects; empty when the folder is not named after an architecture.
std::string_view code_object_extension(std::string_view architecture) {
  return architecture.starts_with("gfx") ? ".hsaco" : architecture.starts_with("sm_") ? ".cubin" : "";
}

/// The entries of a folder in the order of their names, so that loads and reports do not depend on the file system.
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

/// Both vendors' code objects are ELF files.
bool is_elf(std::span<const std::byte> bytes) {
  constexpr std::array magic{std::byte{0x7f}, std::byte{'E'}, std::byte{'L'}, std::byte{'F'}};
  return bytes.size() > magic.size() && std::equal(magic.begin(), magic.end(), bytes.begin());
}

void check_is_elf(std::span<const std::byte> bytes) {
  if (!is_elf(bytes)) {
    throw Error("not a code object (it does not begin as an ELF file)");
  }
}

/// RDNA4 computes with stale scalar registers where code lacks waits that compilers before LLVM 21 don't write.
/// tools/build/gfx12_waits.py completes the code and marks the object.
void check_waits(std::string_view architecture, std::span<const std::byte> code_object) {
  constexpr std::string_view mark = "rocmforge: gfx12 waits 1";
  if (!architecture.starts_with("gfx12")) {
    return;
  }
  const std::string_view bytes(reinterpret_cast<const char*>(code_object.data()), code_object.size());
  if (bytes.find(mark) == std::string_view::npos) {
    throw Error(fmt::format("compiled without the waits that this architecture needs; `./forge kernels {}` makes it anew",
                            architecture));
  }
}

}  // namespace

/// One section of an archive. It is decoded at most once. Threads may call it at the same time.
class PackedKernels {
 public:
  /// `origin` names the archive in error messages. The bytes of the section must outlive the object.
  PackedKernels(KernelArchive::Section section, std::string origin)
      : section_(std::move(section)), origin_(std::move(origin)) {}

  [[nodiscard]] const KernelLibrary::Objects& objects() {
    const std::lock_guard lock(mutex_);
    if (objects_.empty()) {
      with_context(origin_, [&] { with_context(section_.architecture, [&] { decode(); }); });
    }
    return objects_;
  }
  [[nodiscard]] std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const KernelArchive::Object& object : section_.objects) {
      names.push_back(object.name);
    }
    return names;
  }

 private:
  void decode() {
    std::vector<KernelArchiveLine> lines = section_.decode();
    KernelLibrary::Objects objects;
    const std::span<const std::byte> bytes = std::as_bytes(std::span(lines));
    for (const KernelArchive::Object& object : section_.objects) {
      const std::span<const std::byte> code = bytes.subspan(object.offset, object.size_bytes);
      with_context(object.name, [&] { check_is_elf(code); });
      objects.emplace(object.name, code);
    }
    lines_ = std::move(lines);  // the move does not change the addresses of the lines
    objects_ = std::move(objects);
  }

  KernelArchive::Section section_;
  std::string origin_;
  std::mutex mutex_;
  std::vector<KernelArchiveLine> lines_;
  KernelLibrary::Objects objects_;
};

KernelLibrary KernelLibrary::embedded() {
  KernelLibrary library;
  if (const std::span<const std::byte> archive = embedded_kernel_archive(); !archive.empty()) {
    library.add_archive(archive, "the program's own kernels");
  }
  return library;
}

KernelLibrary KernelLibrary::installed() {
  KernelLibrary library = embedded();
  std::error_code ignored;
  fs::path archive;
  if (const fs::path file = own_file(); !file.empty()) {
    archive = kernel_archive_beside(file);
  }
  if (archive.empty()) {
    archive = kernel_archive_beside(fs::read_symlink("/proc/self/exe", ignored));
  }
  if (!archive.empty()) {
    try {
      library.add_archive_file(archive);
    } catch (const Error& error) {
      library.problem_ = error.what();
    }
  }
  return library;
}

KernelLibrary KernelLibrary::from_folder(const fs::path& path) {
  KernelLibrary library;
  std::error_code ignored;
  if (fs::is_regular_file(path, ignored)) {
    library.add_archive_file(path);
    return library;
  }
  library.add_folder(path);
  if (const fs::path archive = path / kernel_archive_name; fs::exists(archive, ignored)) {
    library.add_archive_file(archive);
  }
  if (library.sources_.empty()) {
    throw Error(
        fmt::format("the kernel folder {} holds no code object such as gfx1100/NAME.hsaco or sm_90a/NAME.cubin, nor {}",
                    path.string(), kernel_archive_name));
  }
  return library;
}

void KernelLibrary::add_folder(const fs::path& folder) {
  for (const fs::path& architecture : entries(folder)) {
    const std::string name = architecture.filename().string();
    const std::string_view extension = code_object_extension(name);
    if (extension.empty() || !fs::is_directory(architecture)) {
      continue;
    }
    Objects objects;
    for (const fs::path& path : entries(architecture)) {
      if (path.extension() != extension) {
        continue;
      }
      // HIP looks for the file of what it is given in /proc/self/maps, and cuts its path at a blank.
      const MappedFile& file = *files_.emplace_back(std::make_shared<const MappedFile>(MappedFile::copy_of(path)));
      with_context(path.string(), [&] { check_is_elf(file.bytes()); });
      objects[path.stem().string()] = file.bytes();
    }
    if (!objects.empty()) {
      sources_[name] = std::move(objects);
    }
  }
}

void KernelLibrary::add_archive(std::span<const std::byte> bytes, const std::string& origin) {
  const KernelArchive archive = with_context(origin, [&] { return KernelArchive(bytes, kernel_stamp()); });
  for (const KernelArchive::Section& section : archive.sections()) {
    if (!sources_.contains(section.architecture)) {
      sources_.emplace(section.architecture, std::make_shared<PackedKernels>(section, origin));
    }
  }
}

void KernelLibrary::add_archive_file(const fs::path& path) {
  const auto file = std::make_shared<const MappedFile>(path);
  add_archive(file->bytes(), path.string());
  files_.push_back(file);
}

std::vector<std::string> KernelLibrary::architectures() const {
  std::vector<std::string> names;
  for (const auto& [name, source] : sources_) {
    names.push_back(name);
  }
  return names;
}

std::string KernelLibrary::architecture_for(const DeviceInfo& device) const {
  // Objects that were compiled without naming the device's features run with any setting of them.
  const std::string own(device.architecture_name());
  if (device.kind == DeviceKind::cuda && sources_.contains(own + "a")) {
    return own + "a";
  }
  if (device.is_gpu() && sources_.contains(own)) {
    return own;
  }
  const std::string generic(device.kind == DeviceKind::hip ? generic_architecture(own) : "");
  return sources_.contains(generic) ? generic : std::string();
}

const KernelLibrary::Source& KernelLibrary::source(std::string_view architecture) const {
  const auto found = sources_.find(architecture);
  if (found == sources_.end()) {
    throw Error(
        fmt::format("no kernels for {}: {}", architecture,
                    sources_.empty() ? "there are none for any GPU" : "there are some for " + join(architectures())));
  }
  return found->second;
}

const KernelLibrary::Objects& KernelLibrary::objects(std::string_view architecture) const {
  const Source& found = source(architecture);
  const auto* packed = std::get_if<std::shared_ptr<PackedKernels>>(&found);
  const Objects& objects = packed != nullptr ? (*packed)->objects() : std::get<Objects>(found);
  for (const auto& object : objects) {
    with_context(fmt::format("{}: {}", architecture, object.first), [&] { check_waits(architecture, object.second); });
  }
  return objects;
}

std::string KernelLibrary::hash_of_objects(std::string_view architecture) const {
  std::uint64_t hash = 0xcbf29ce484222325u;  // FNV-1a, of words of eight bytes
  const auto add = [&hash](std::span<const std::byte> bytes) {
    for (std::size_t at = 0; at < bytes.size(); at += sizeof hash) {
      std::uint64_t word = 0;
      std::memcpy(&word, bytes.data() + at, std::min(sizeof word, bytes.size() - at));
      hash = (hash ^ word) * 0x100000001b3u;
      hash ^= hash >> 32;  // a product carries upwards only
    }
  };
  for (const auto& [name, object] : objects(architecture)) {
    add(std::as_bytes(std::span(name)));
    add(object);
  }
  return fmt::format("{:016x}", hash);
}

std::vector<std::string> KernelLibrary::object_names(std::string_view architecture) const {
  const Source& found = source(architecture);
  if (const auto* packed = std::get_if<std::shared_ptr<PackedKernels>>(&found)) {
    return (*packed)->names();
  }
  std::vector<std::string> names;
  for (const auto& [name, code_object] : std::get<Objects>(found)) {
    names.push_back(name);
  }
  return names;
}

// Source: LLVM's AMDGPU usage guide, "Generic processors".
std::string_view generic_architecture(std::string_view architecture) {
  struct Generation {
    std::string_view members;  ///< a name but for its last digit
    std::string_view generic;
  };
  constexpr std::array generations{Generation{"gfx94", "gfx9-4-generic"},   Generation{"gfx95", "gfx9-4-generic"},
                                   Generation{"gfx101", "gfx10-1-generic"}, Generation{"gfx103", "gfx10-3-generic"},
                                   Generation{"gfx110", "gfx11-generic"},   Generation{"gfx115", "gfx11-generic"},
                                   Generation{"gfx120", "gfx12-generic"}};
  const auto is_member = [&](const Generation& generation) {
    return architecture.starts_with(generation.members) && architecture.size() == generation.members.size() + 1;
  };
  const auto found = std::ranges::find_if(generations, is_member);
  return found != generations.end() ? found->generic : std::string_view();
}

fs::path own_file() {
  // A relative name is the program's first argument (argv[0]), which need not lead to its file.
  static const char here = 0;
  std::error_code ignored;
  Dl_info object;
  return dladdr(&here, &object) != 0 && fs::path(object.dli_fname).is_absolute()
             ? fs::weakly_canonical(object.dli_fname, ignored)
             : fs::path();
}

fs::path kernel_archive_beside(const fs::path& file) {
  std::error_code ignored;
  fs::path folder = file.parent_path();
  for (int level = 0; level < 2 && folder.has_relative_path(); ++level) {
    folder = folder.parent_path();
    if (fs::path archive = folder / "share" / "rocmforge" / kernel_archive_name; fs::is_regular_file(archive, ignored)) {
      return archive;
    }
  }
  return {};
}

std::string how_to_compile_kernels(const DeviceInfo& device) {
  return fmt::format("`./forge kernels {}` compiles them, and the next build embeds them", device.architecture_name());
}

}  // namespace rocmforge
