#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace rocmforge {

enum class DeviceKind { cpu, hip, cuda };

/// Instruction sets of the CPU bodies, weakest first. One body is compiled for each and chosen at run time.
/// avx2 includes FMA and F16C; avxvnni adds its 8-bit dot products to that; avx512 includes BW, VL, DQ, VBMI, VNNI and BF16
/// (Zen 4, Sapphire Rapids and later); neon includes the dot products and half precision arithmetic of Armv8.2.
enum class CpuIsa { generic, neon, avx2, avxvnni, avx512 };
inline constexpr CpuIsa cpu_isas[] = {CpuIsa::generic, CpuIsa::neon, CpuIsa::avx2, CpuIsa::avxvnni, CpuIsa::avx512};

std::string_view name(DeviceKind kind);
std::string_view name(CpuIsa isa);
std::optional<CpuIsa> cpu_isa_from_name(std::string_view name);

/// What a kernel may ask about the device it would run on.
struct DeviceInfo {
  DeviceKind kind = DeviceKind::cpu;
  int index = 0;                     ///< among the devices of its kind
  std::string name;                  ///< "AMD EPYC", "NVIDIA H200"
  std::string architecture;          ///< "avx512", "gfx1100", "gfx942:sramecc+:xnack-", "sm_90"
  int compute_units = 1;             ///< CPU: processors this process may use; NVIDIA: multiprocessors; AMD: as HIP
                                     ///< counts, on RDNA work-group processors of two compute units each
  std::int64_t memory_bytes = 0;     ///< CPU: installed memory
  CpuIsa cpu_isa = CpuIsa::generic;  ///< CPU only
  bool avx_vnni = false;             ///< CPU only: has avxvnni, which not every processor with avx512 has
  /// CPU only: multiplies pairs of BF16 in less time than F32 numbers. Of the processors with avx512, AMD's do (Zen 4, Zen
  /// 5); on Intel's (Sapphire Rapids) a product of pairs takes four times as long as one of F32, for twice the numbers.
  bool fast_bfloat_pairs = false;

  // GPU only
  int wave_size = 0;                     ///< lanes that run in step: 32 or 64
  std::int64_t shared_memory_bytes = 0;  ///< LDS, or shared memory, that one work-group may use
  std::int64_t l2_bytes = 0;
  bool integrated = false;           ///< AMD: part of a processor, with whose memory it computes
  std::int64_t set_apart_bytes = 0;  ///< integrated: what the firmware has set apart of that memory
  bool vendor_runtime = false;       ///< driven by the vendor's own runtime, so that the vendor's libraries share its memory

  [[nodiscard]] bool is_gpu() const { return kind != DeviceKind::cpu; }
  /// Without what stands behind a colon: settings of an AMD device. Valid as long as `architecture`.
  [[nodiscard]] std::string_view architecture_name() const {
    return std::string_view(architecture).substr(0, architecture.find(':'));
  }
};

/// The processor this program runs on. `isa_limit` caps the instruction set (tests run every body a machine has).
DeviceInfo cpu_device_info(CpuIsa isa_limit = CpuIsa::avx512);

}  // namespace rocmforge
