#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace rocmforge {

enum class DeviceKind { cpu, hip, cuda };

/// Instruction sets of the CPU bodies, from the least to the most capable. One body is compiled for each and chosen at run
/// time. avx2 includes FMA and F16C; avxvnni adds its 8-bit dot products to that; avx512 includes BW, VL, DQ, VBMI, VNNI and
/// BF16 (Zen 4, Sapphire Rapids and later); neon includes the dot products and half precision arithmetic of Armv8.2.
enum class CpuIsa { generic, neon, avx2, avxvnni, avx512 };
inline constexpr CpuIsa cpu_isas[] = {CpuIsa::generic, CpuIsa::neon, CpuIsa::avx2, CpuIsa::avxvnni, CpuIsa::avx512};

std::string_view name(DeviceKind kind);
std::string_view name(CpuIsa isa);
std::optional<CpuIsa> cpu_isa_from_name(std::string_view name);

/// The properties of a device that kernels check in `supports`.
struct DeviceInfo {
  DeviceKind kind = DeviceKind::cpu;
  int index = 0;                     ///< among the devices of this kind
  std::string name;                  ///< "AMD EPYC", "NVIDIA H200"
  std::string architecture;          ///< "avx512", "gfx1100", "gfx942:sramecc+:xnack-", "sm_90"
  int compute_units = 1;             ///< CPU: processors this process may use; NVIDIA: multiprocessors; AMD: as HIP
                                     ///< counts, on RDNA work-group processors of two compute units each
  std::int64_t memory_bytes = 0;     ///< CPU: installed memory
  CpuIsa cpu_isa = CpuIsa::generic;  ///< CPU only
  bool avx_vnni = false;             ///< CPU only: has avxvnni, which some processors with avx512 lack
  /// CPU only: a product of a pair of BF16 numbers takes less time than two of F32. This is so on AMD's processors with
  /// avx512 (Zen 4, Zen 5). On Intel's (Sapphire Rapids) a product of pairs takes four times as long as one of F32, for
  /// twice the numbers.
  bool fast_bfloat_pairs = false;

  // GPU only
  int wave_size = 0;                     ///< lanes that run in lockstep: 32 or 64
  std::int64_t shared_memory_bytes = 0;  ///< LDS or shared memory that one work-group may use
  std::int64_t l2_bytes = 0;
  bool integrated = false;           ///< AMD: the GPU is part of a processor and uses its memory
  std::int64_t set_apart_bytes = 0;  ///< integrated: the part of that memory that the firmware reserves
  std::string pci_address;           ///< AMD: "0000:03:00.0", empty when the runtime does not say
  std::string pci_id;                ///< AMD: "1002:744c", empty when the system does not say
  std::string pci_link;              ///< AMD: "16.0 GT/s PCIe x16", empty when the system does not say
  std::string firmware;              ///< AMD: versions, empty when the system does not say
  std::string kernel_driver;         ///< AMD: "amdgpu of Linux 6.8.0", empty when none is loaded
  std::int64_t visible_bytes = 0;    ///< AMD: of its own memory, those that the processor can address; 0 when not known
  bool vendor_runtime = false;       ///< driven by the vendor's own runtime, whose memory the vendor's libraries can use

  [[nodiscard]] bool is_gpu() const { return kind != DeviceKind::cpu; }
  /// The architecture without the settings of an AMD device, which follow a colon. Valid as long as `architecture`.
  [[nodiscard]] std::string_view architecture_name() const {
    return std::string_view(architecture).substr(0, architecture.find(':'));
  }
};

/// The processor that this program runs on. `isa_limit` limits the instruction set (tests run every body that the machine
/// supports).
DeviceInfo cpu_device_info(CpuIsa isa_limit = CpuIsa::avx512);

}  // namespace rocmforge
