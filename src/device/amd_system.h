#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rocmforge {

// What Linux says of AMD's GPUs, whatever the HIP runtime says. `root` is "/", or in tests a folder laid out like it.

/// "gfx1100", from the topology that the kernel driver gives to compute programs.
std::vector<std::string> amd_architectures(const std::filesystem::path& root = "/");

/// "amdgpu 6.12.12" of a driver that came with ROCm, "amdgpu of Linux 6.8.0" of the kernel's own, empty without one.
std::string amd_kernel_driver(const std::filesystem::path& root = "/");

/// Why the HIP runtime may see no GPU: a missing driver, a missing permission, or GPUs that the driver knows. Empty where
/// the machine has no AMD GPU.
std::string why_no_amd_gpu(const std::filesystem::path& root = "/");

/// Files to open as the HIP runtime, in this order: those that the loader finds, those of /opt/rocm and of the folders
/// /opt/rocm-VERSION, newest first.
std::vector<std::string> hip_runtime_names(const std::filesystem::path& root = "/");

/// Memory of a card in bytes, as its kernel driver counts it: its own (on an APU what the firmware has set apart of the
/// host's), and how much of the host's the driver lets it use besides (GTT).
struct AmdCardMemory {
  std::int64_t own_total = 0;
  std::int64_t own_used = 0;
  std::int64_t host_total = 0;
  std::int64_t host_used = 0;

  friend bool operator==(const AmdCardMemory&, const AmdCardMemory&) = default;
};

/// Of the card at a PCI address such as "0000:c5:00.0". Empty when the driver doesn't say.
std::optional<AmdCardMemory> amd_card_memory(std::string_view pci_address, const std::filesystem::path& root = "/");

/// What can still be allocated, of `free_bytes` and `total_bytes` that the runtime reports. A runtime that allocates an
/// APU's buffers in the host's memory reports a total above what is set apart; it does not know what others hold of that
/// memory, nor do older ones know what other processes hold of a card's own. `host_free_bytes`: what the host has left, if
/// known.
std::int64_t amd_free_bytes(std::int64_t free_bytes, std::int64_t total_bytes, const AmdCardMemory& card, bool integrated,
                            std::optional<std::int64_t> host_free_bytes);

}  // namespace rocmforge
