#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace rocmforge {

// Information from Linux about AMD GPUs, independent of the HIP runtime. `root` is "/"; tests pass a folder with the same
// layout.

/// The architectures ("gfx1100") in the topology that the kernel driver provides for compute programs.
std::vector<std::string> amd_architectures(const std::filesystem::path& root = "/");

/// "amdgpu 6.12.12" for a driver that was installed with ROCm, "amdgpu of Linux 6.8.0" for the driver of the kernel itself.
/// Empty when none is loaded.
std::string amd_kernel_driver(const std::filesystem::path& root = "/");

/// The reason why the HIP runtime may see no GPU: WSL, a missing driver, a missing permission, a container without the
/// devices, or the list of GPUs that the driver knows. Empty when the machine has no AMD GPU.
std::string why_no_amd_gpu(const std::filesystem::path& root = "/");

/// Whether an architecture ("gfx1151") is that of GPUs in processors alone, which use the host's memory. HIP 5 calls none
/// of them integrated.
bool is_processors_gpu(std::string_view architecture);

/// ROCm as pip installs it below Python's prefixes: PREFIX/lib/python3.12/site-packages/_rocm_sdk_core.
std::vector<std::filesystem::path> pip_rocm_folders(std::span<const std::filesystem::path> prefixes);

/// The files to try as the HIP runtime, in order: those in the `preferred` folders of ROCm, ROCm 8, 7 and 6 by the names
/// that the loader resolves, /opt/rocm, /opt/rocm-VERSION and /opt/rocm/core-VERSION with the newest version first, those in
/// pip's folders, and last the old runtime of distributions.
std::vector<std::string> hip_runtime_names(std::span<const std::filesystem::path> preferred,
                                           std::span<const std::filesystem::path> pip,
                                           const std::filesystem::path& root = "/");

/// Where the libraries called `names` lie that belong to a HIP runtime. Others may bring a second runtime into the process.
/// The names themselves when the loader found the runtime by its own name.
std::vector<std::string> libraries_beside(const std::string& runtime, std::span<const char* const> names);

/// "1002:744c", the numbers of the vendor and of the device at a PCI address. Empty when the system does not say.
std::string amd_pci_id(std::string_view pci_address, const std::filesystem::path& root = "/");

/// The PCI link of a card: "16.0 GT/s PCIe x8 of 16.0 GT/s PCIe x16". The second half, the most that the card can do, only
/// where it is more. Empty when the system does not say.
std::string amd_pci_link(std::string_view pci_address, const std::filesystem::path& root = "/");

/// The part of a card's own memory that the processor can address, bytes: all of it with a resizable BAR.
std::optional<std::int64_t> amd_visible_bytes(std::string_view pci_address, const std::filesystem::path& root = "/");

/// The versions of a card's firmware: "VBIOS 113-D7020100-102, SMC 0x004e8500". Empty when the system does not say.
std::string amd_firmware(std::string_view pci_address, const std::filesystem::path& root = "/");

/// A clock of a card in MHz.
struct AmdClock {
  double now = 0.0;
  double most = 0.0;  ///< of the levels that the driver lists

  friend bool operator==(const AmdClock&, const AmdClock&) = default;
};
/// What a card's sensors say at this moment. Empty is what the kernel driver has no file for, or one of another form; those
/// files are named in `missing`.
struct AmdSensors {
  std::optional<AmdClock> core;       ///< pp_dpm_sclk
  std::optional<AmdClock> memory;     ///< pp_dpm_mclk
  std::optional<double> watts;        ///< hwmon's power1_average, else its power1_input
  std::optional<double> watts_limit;  ///< hwmon's power1_cap
  std::vector<std::string> missing;
};
AmdSensors amd_sensors(std::string_view pci_address, const std::filesystem::path& root = "/");

/// The memory of a card in bytes, as its kernel driver counts it. `own` is the card's memory; on an APU it is the part of
/// the host's memory that the firmware reserves for it. `host` is the part of the host's memory that the driver lets the
/// card use in addition (GTT).
struct AmdCardMemory {
  std::int64_t own_total = 0;
  std::int64_t own_used = 0;
  std::int64_t host_total = 0;
  std::int64_t host_used = 0;

  friend bool operator==(const AmdCardMemory&, const AmdCardMemory&) = default;
};

/// The memory of the card at a PCI address such as "0000:c5:00.0". Empty when the driver does not report it.
std::optional<AmdCardMemory> amd_card_memory(std::string_view pci_address, const std::filesystem::path& root = "/");

/// The number of bytes that can still be allocated, computed from the `free_bytes` and `total_bytes` that the runtime
/// reports. If a runtime allocates an APU's buffers in the host's memory, its total is above the reserved part, and it does
/// not know how much of the host's memory is in use elsewhere. Older runtimes do not know how much of a card's own memory
/// other processes use. `host_free_bytes` is the free memory of the host, if known.
std::int64_t amd_free_bytes(std::int64_t free_bytes, std::int64_t total_bytes, const AmdCardMemory& card, bool integrated,
                            std::optional<std::int64_t> host_free_bytes);

}  // namespace rocmforge
