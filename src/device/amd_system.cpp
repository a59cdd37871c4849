#include "device/amd_system.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
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

/// Docker and Podman mark what they run.
bool is_container(const fs::path& root) {
  std::error_code failure;
  return fs::exists(root / ".dockerenv", failure) || fs::exists(root / "run/.containerenv", failure);
}

/// Empty for what is no PCI address.
fs::path card_folder(std::string_view pci_address, const fs::path& root) {
  if (pci_address.empty() || pci_address.find_first_not_of("0123456789abcdefABCDEF:.") != pci_address.npos) {
    return {};
  }
  std::string name(pci_address);
  std::ranges::transform(name, name.begin(),
                         [](char c) { return c >= 'A' && c <= 'F' ? static_cast<char>(c - 'A' + 'a') : c; });
  return root / "sys/bus/pci/devices" / name;
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
  std::error_code failure;
  if (first_line(root / "proc/sys/kernel/osrelease").find("microsoft") != std::string::npos) {
    return fs::exists(root / "dev/dxg", failure)
               ? "this is WSL, where the GPU is reached through /dev/dxg by a HIP runtime of ROCm for WSL alone"
               : "this is WSL without /dev/dxg: Windows lends it no GPU";
  }
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
  const std::string lent = is_container(root) ? "; a container gets them by --device=/dev/kfd --device=/dev/dri" : "";
  const fs::path node = root / "dev/kfd";
  const int file = ::open(node.c_str(), O_RDWR | O_CLOEXEC);
  if (file < 0) {
    const int reason = errno;
    return fmt::format("{}, but /dev/kfd: {}{}{}", listed, std::strerror(reason),
                       reason == EACCES ? "; users of it belong to the groups render and video" : "", lent);
  }
  ::close(file);
  const auto nodes = files_in(root / "dev/dri");
  if (std::ranges::none_of(nodes, [](const fs::path& path) { return path.filename().string().starts_with("renderD"); })) {
    return fmt::format("{}, but there is no /dev/dri/renderD*{}", listed, lent);
  }
  return listed + (std::ranges::find(known, "gfx1037") == known.end()
                       ? ""
                       : "; AMD's runtimes don't know gfx1037: HSA_OVERRIDE_GFX_VERSION=10.3.0 makes it a gfx1030");
}

bool is_processors_gpu(std::string_view architecture) {
  constexpr std::array names{"gfx902",  "gfx90c",  "gfx1013", "gfx1033", "gfx1035", "gfx1036",
                             "gfx1037", "gfx1103", "gfx1150", "gfx1151", "gfx1152", "gfx1153"};
  return std::ranges::find(names, architecture.substr(0, architecture.find(':'))) != names.end();
}

namespace {

/// The HIP runtime in a folder of ROCm: the name without a version, else the newest version. Packages of pip have no other.
fs::path runtime_in(const fs::path& folder) {
  const std::string name = "libamdhip64.so";
  std::pair<std::vector<std::int64_t>, fs::path> newest{{}, folder / "lib" / name};
  for (const char* lib : {"lib", "lib64"}) {
    for (const fs::path& file : files_in(folder / lib)) {
      const std::string found = file.filename().string();
      if (found == name) {
        return file;
      }
      if (found.starts_with(name + ".")) {
        newest = std::max(newest, std::pair(version_in(found.substr(name.size())), file));
      }
    }
  }
  return newest.second;
}

/// ROCm in /opt/rocm-6.4.1, /opt/rocm/core-7.12, newest first.
std::vector<fs::path> rocm_folders_in_opt(const fs::path& root) {
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
  std::vector<fs::path> folders;
  std::ranges::transform(versions, std::back_inserter(folders), [](const auto& version) { return version.second; });
  return folders;
}

}  // namespace

std::vector<fs::path> pip_rocm_folders(std::span<const fs::path> prefixes) {
  std::vector<fs::path> folders;
  for (const fs::path& prefix : prefixes) {
    for (const fs::path& python : files_in(prefix / "lib")) {
      for (const char* packages : {"site-packages", "dist-packages"}) {
        const bool is_python = python.filename().string().starts_with("python3");
        for (const fs::path& package : is_python ? files_in(python / packages) : std::vector<fs::path>()) {
          const std::string name = package.filename().string();
          if (name.starts_with("_rocm_sdk_core") && std::ranges::find(folders, package) == folders.end()) {
            folders.push_back(package);
          }
        }
      }
    }
  }
  return folders;
}

std::vector<std::string> hip_runtime_names(std::span<const fs::path> preferred, std::span<const fs::path> pip,
                                           const fs::path& root) {
  std::vector<std::string> names;
  const auto add = [&](const fs::path& folder) { names.push_back(runtime_in(folder).string()); };
  std::ranges::for_each(preferred, add);
  // Names that the loader resolves: ROCm's, which need an entry in its configuration, and the newer distributions'.
  names.insert(names.end(), {"libamdhip64.so.8", "libamdhip64.so.7", "libamdhip64.so.6"});
  add(root / "opt/rocm");
  std::ranges::for_each(rocm_folders_in_opt(root), add);
  std::ranges::for_each(pip, add);
  names.insert(names.end(), {"libamdhip64.so.5", "libamdhip64.so"});
  return names;
}

std::vector<std::string> libraries_beside(const std::string& runtime, std::span<const char* const> names) {
  const fs::path file(runtime);
  if (!file.has_parent_path()) {
    return {names.begin(), names.end()};  // the loader finds both in the same folders
  }
  std::vector<fs::path> folders{file.parent_path()};
  // pip's packages: PACKAGES/_rocm_sdk_core/lib and PACKAGES/_rocm_sdk_libraries_gfx110X_all/lib
  for (const fs::path& package : files_in(file.parent_path().parent_path().parent_path())) {
    if (package.filename().string().starts_with("_rocm_sdk_libraries")) {
      folders.push_back(package / "lib");
    }
  }
  std::vector<std::string> files;
  for (const fs::path& folder : folders) {
    for (const char* name : names) {
      files.push_back((folder / name).string());
    }
  }
  return files;
}

std::string amd_pci_id(std::string_view pci_address, const fs::path& root) {
  const fs::path folder = card_folder(pci_address, root);
  const auto number = [&](const char* file) {
    const std::string text = folder.empty() ? std::string() : first_line(folder / file);
    return text.starts_with("0x") ? text.substr(2) : std::string();
  };
  const std::string vendor = number("vendor");
  const std::string device = number("device");
  return vendor.empty() || device.empty() ? std::string() : vendor + ":" + device;
}

std::string amd_pci_link(std::string_view pci_address, const fs::path& root) {
  const fs::path folder = card_folder(pci_address, root);
  const auto link = [&](const std::string& which) {
    const std::string speed = folder.empty() ? std::string() : first_line(folder / (which + "_link_speed"));
    const std::string width = folder.empty() ? std::string() : first_line(folder / (which + "_link_width"));
    return speed.empty() || width.empty() ? std::string() : fmt::format("{} x{}", speed, width);
  };
  const std::string current = link("current");
  const std::string most = link("max");
  return current.empty() || most.empty() || most == current ? current : current + " of " + most;
}

std::optional<std::int64_t> amd_visible_bytes(std::string_view pci_address, const fs::path& root) {
  const fs::path folder = card_folder(pci_address, root);
  return folder.empty() ? std::nullopt : number_in(first_line(folder / "mem_info_vis_vram_total"));
}

std::string amd_firmware(std::string_view pci_address, const fs::path& root) {
  const fs::path folder = card_folder(pci_address, root);
  std::string text;
  const auto add = [&](std::string_view what, const fs::path& file) {
    if (const std::string version = folder.empty() ? std::string() : first_line(folder / file); !version.empty()) {
      text += fmt::format("{}{} {}", text.empty() ? "" : ", ", what, version);
    }
  };
  add("VBIOS", "vbios_version");
  add("MEC", "fw_version/mec_fw_version");
  add("SDMA", "fw_version/sdma_fw_version");
  add("SMC", "fw_version/smc_fw_version");
  return text;
}

namespace {

/// A line of pp_dpm_sclk: "1: 2304Mhz *", the star behind the level that is in use.
std::optional<double> level_in(std::string_view line) {
  const std::size_t colon = line.find(':');
  const std::size_t first = colon == line.npos ? colon : line.find_first_not_of(' ', colon + 1);
  const std::size_t last = line.find_first_of("Mm", first == line.npos ? 0 : first);
  const auto number = first == line.npos || last == line.npos ? std::nullopt : number_in(line.substr(first, last - first));
  return number ? std::optional(static_cast<double>(*number)) : std::nullopt;
}

std::optional<AmdClock> clock_in(std::string_view text) {
  std::optional<double> now;
  double most = 0.0;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    const std::optional<double> level = level_in(line);
    most = std::max(most, level.value_or(0.0));
    now = level && line.find('*') != line.npos ? level : now;
  }
  return now ? std::optional(AmdClock{*now, most}) : std::nullopt;
}

/// Watts in a file of microwatts.
std::optional<double> watts_in(const fs::path& file) {
  const auto microwatts = number_in(first_line(file));
  return microwatts ? std::optional(static_cast<double>(*microwatts) * 1e-6) : std::nullopt;
}

}  // namespace

AmdSensors amd_sensors(std::string_view pci_address, const fs::path& root) {
  AmdSensors found;
  const fs::path folder = card_folder(pci_address, root);
  if (!folder.empty()) {
    found.core = clock_in(text_of(folder / "pp_dpm_sclk"));
    found.memory = clock_in(text_of(folder / "pp_dpm_mclk"));
    for (const fs::path& monitor : files_in(folder / "hwmon")) {
      const std::optional<double> average = watts_in(monitor / "power1_average");
      found.watts = average ? average : watts_in(monitor / "power1_input");
      found.watts_limit = watts_in(monitor / "power1_cap");
    }
  }
  const auto note = [&](bool known, const char* file) {
    if (!known) {
      found.missing.emplace_back(file);
    }
  };
  note(found.core.has_value(), "pp_dpm_sclk");
  note(found.memory.has_value(), "pp_dpm_mclk");
  note(found.watts.has_value(), "hwmon power1_average or power1_input");
  note(found.watts_limit.has_value(), "hwmon power1_cap");
  return found;
}

std::optional<AmdCardMemory> amd_card_memory(std::string_view pci_address, const fs::path& root) {
  const fs::path folder = card_folder(pci_address, root);
  if (folder.empty()) {
    return std::nullopt;
  }
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
