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

/// The reason why the HIP runtime may see no GPU: a missing driver, a missing permission, or the list of GPUs that the
/// driver knows. Empty when the machine has no AMD GPU.
std::string why_no_amd_gpu(const std::filesystem::path& root = "/");

/// The files to try as the HIP runtime, in order: those in the `preferred` folders of ROCm, ROCm 8, 7 and 6 by the names
/// that the loader resolves, /opt/rocm, /opt/rocm-VERSION and /opt/rocm/core-VERSION with the newest version first, and last
/// the old runtime of distributions.
std::vector<std::string> hip_runtime_names(std::span<const std::filesystem::path> preferred,
                                           const std::filesystem::path& root = "/");

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
