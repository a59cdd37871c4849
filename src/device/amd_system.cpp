#include "device/amd_system.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <functional>
#include <iterator>
#include <system_error>
#include <utility>

#include "base/available_memory.h"

namespace rocmforge {
namespace {

namespace fs = std::filesystem;

/// The first 64 KiB of a file in /sys or /proc, empty when it can't be read. Nothing beyond that is used.
std::string text_of(const fs::path& path) {
  constexpr std::size_t most_bytes = 65536;
  std::ifstream file(path, std::ios::binary);
  std::string text(most_bytes, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  return text;
}

std::string first_line(const fs::path& path) {
  const std::string text = text_of(path);
  return text.substr(0, text.find('\n'));
}

std::vector<fs::path> files_in(const fs::path& folder) {
  std::error_code failure;
  std::vector<fs::path> paths;
  for (fs::directory_iterator entry(folder, failure), end; !failure && entry != end; entry.increment(failure)) {
    paths.push_back(entry->path());
  }
  std::ranges::sort(paths);
  return paths;
}

std::optional<std::int64_t> number_in(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  return failure == std::errc() && value >= 0 ? std::optional(value) : std::nullopt;
}

/// The number of AMD's display controllers and processing accelerators on the PCI bus.
int count_amd_controllers(const fs::path& root) {
  const auto devices = files_in(root / "sys/bus/pci/devices");
  return static_cast<int>(std::ranges::count_if(devices, [](const fs::path& device) {
    const std::string kind = first_line(device / "class");
    return first_line(device / "vendor") == "0x1002" && (kind.starts_with("0x03") || kind.starts_with("0x12"));
  }));
}

/// The numbers of a version, for comparison: 6.10.0 is newer than 6.9.3.
std::vector<std::int64_t> version_in(std::string_view text) {
  std::vector<std::int64_t> numbers;
  while (!text.empty()) {
    const auto digits = std::min(text.size(), text.find_first_not_of("0123456789"));
    if (const auto number = number_in(text.substr(0, digits))) {
      numbers.push_back(*number);
    }
    text.remove_prefix(std::min(text.size(), std::max<std::size_t>(1, digits)));
  }
  return numbers;
}

}  // namespace

std::vector<std::string> amd_architectures(const fs::path& root) {
  std::vector<std::string> names;
  for (const fs::path& node : files_in(root / "sys/class/kfd/kfd/topology/nodes")) {
    if (const auto version = find_number(text_of(node / "properties"), "gfx_target_version"); version.value_or(0) > 0) {
      names.push_back(fmt::format("gfx{}{}{:x}", *version / 10000, *version / 100 % 100, *version % 100));
    }
  }
  return names;
}

std::string amd_kernel_driver(const fs::path& root) {
  if (const std::string version = first_line(root / "sys/module/amdgpu/version"); !version.empty()) {
    return "amdgpu " + version;
  }
  std::error_code failure;
  return fs::exists(root / "sys/module/amdgpu", failure)
             ? "amdgpu of Linux " + first_line(root / "proc/sys/kernel/osrelease")
             : std::string();
}

std::string why_no_amd_gpu(const fs::path& root) {
  const std::vector<std::string> known = amd_architectures(root);
  if (known.empty()) {
    const int controllers = count_amd_controllers(root);
    if (controllers == 0) {
      return {};
    }
    const std::string driver = amd_kernel_driver(root);
    return fmt::format("AMD GPUs on the PCI bus: {}, but the kernel driver provides none for compute programs: {}",
                       controllers, driver.empty() ? "amdgpu is not loaded" : driver);
  }
  const std::string listed = fmt::format("the kernel driver knows {}", fmt::join(known, ", "));
  const fs::path node = root / "dev/kfd";
  const int file = ::open(node.c_str(), O_RDWR | O_CLOEXEC);
  if (file >= 0) {
    ::close(file);
    return listed;
  }
  const int reason = errno;
  return fmt::format("{}, but /dev/kfd: {}{}", listed, std::strerror(reason),
                     reason == EACCES ? "; users of it belong to the groups render and video" : "");
}

std::vector<std::string> hip_runtime_names(std::span<const fs::path> preferred, const fs::path& root) {
  constexpr std::string_view file = "lib/libamdhip64.so";
  std::vector<std::string> names;
  for (const fs::path& folder : preferred) {
    names.push_back((folder / file).string());
  }
  // Names that the loader resolves: ROCm's, which need an entry in its configuration, and the newer distributions'.
  names.insert(names.end(), {"libamdhip64.so.8", "libamdhip64.so.7", "libamdhip64.so.6"});
  names.push_back((root / "opt/rocm" / file).string());
  std::vector<std::pair<std::vector<std::int64_t>, fs::path>> versions;
  for (const char* parent : {"opt", "opt/rocm"}) {
    for (const fs::path& folder : files_in(root / parent)) {
      const std::string name = folder.filename().string();
      if (name.starts_with("rocm-") || name.starts_with("core-")) {
        versions.emplace_back(version_in(name), folder);
      }
    }
  }
  std::ranges::sort(versions, std::greater());
  for (const auto& [version, folder] : versions) {
    names.push_back((folder / file).string());
  }
  names.insert(names.end(), {"libamdhip64.so.5", "libamdhip64.so"});
  return names;
}

std::optional<AmdCardMemory> amd_card_memory(std::string_view pci_address, const fs::path& root) {
  const bool is_address =
      !pci_address.empty() && pci_address.find_first_not_of("0123456789abcdefABCDEF:.") == pci_address.npos;
  if (!is_address) {
    return std::nullopt;
  }
  std::string name(pci_address);
  std::ranges::transform(name, name.begin(),
                         [](char c) { return c >= 'A' && c <= 'F' ? static_cast<char>(c - 'A' + 'a') : c; });
  const fs::path folder = root / "sys/bus/pci/devices" / name;
  const auto own_total = number_in(first_line(folder / "mem_info_vram_total"));
  const auto own_used = number_in(first_line(folder / "mem_info_vram_used"));
  const auto host_total = number_in(first_line(folder / "mem_info_gtt_total"));
  const auto host_used = number_in(first_line(folder / "mem_info_gtt_used"));
  if (!own_total || !own_used || !host_total || !host_used) {
    return std::nullopt;
  }
  return AmdCardMemory{*own_total, *own_used, *host_total, *host_used};
}

std::int64_t amd_free_bytes(std::int64_t free_bytes, std::int64_t total_bytes, const AmdCardMemory& card, bool integrated,
                            std::optional<std::int64_t> host_free_bytes) {
  const std::int64_t own_free = std::max<std::int64_t>(0, card.own_total - card.own_used);
  if (!integrated || total_bytes <= card.own_total) {
    return std::min(free_bytes, own_free);
  }
  const std::int64_t granted = std::max<std::int64_t>(0, card.host_total - card.host_used);
  return std::min({free_bytes, granted, host_free_bytes.value_or(granted)});
}

}  // namespace rocmforge
