#include "device/device_info.h"

#include <unistd.h>
#if defined(__aarch64__)
#include <sys/auxv.h>
#elif defined(__x86_64__)
#include <cpuid.h>
#endif

#include <fmt/format.h>

#include <fstream>

#include "base/thread_pool.h"
#include "device/device_label.h"

namespace rocmforge {

namespace {

std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("model name")) {
      const auto colon = line.find(": ");
      return colon == std::string::npos ? line : line.substr(colon + 2);
    }
  }
  return "CPU";
}

#if defined(__x86_64__)
/// Compilers of 2022 do not know the name "avxvnni" in __builtin_cpu_supports.
bool has_avx_vnni() {
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
  constexpr unsigned avx_vnni_bit = 1u << 4;
  return __builtin_cpu_supports("avx2") && __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) != 0 && (eax & avx_vnni_bit) != 0;
}
#endif

/// Whether this processor has the instruction set.
bool has(CpuIsa isa) {
#if defined(__x86_64__)
  // Every processor with AVX2 and FMA also has F16C and BMI2.
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  switch (isa) {
    case CpuIsa::avx2:
      return avx2;
    case CpuIsa::avxvnni:
      return avx2 && has_avx_vnni();
    case CpuIsa::avx512:
      return avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
             __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
             __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512vbmi") &&
             __builtin_cpu_supports("avx512bf16");
    default:
      return isa == CpuIsa::generic;
  }
#elif defined(__aarch64__)
  // The kernel's names for the dot products and the half precision arithmetic of Armv8.2.
  constexpr unsigned long needed = HWCAP_ASIMDDP | HWCAP_ASIMDHP;
  return isa == CpuIsa::generic || (isa == CpuIsa::neon && (::getauxval(AT_HWCAP) & needed) == needed);
#else
  return isa == CpuIsa::generic;
#endif
}

}  // namespace

std::string_view name(DeviceKind kind) {
  switch (kind) {
    case DeviceKind::cpu:
      return "cpu";
    case DeviceKind::hip:
      return "hip";
    case DeviceKind::cuda:
      return "cuda";
  }
  return "?";
}

std::string device_label(const DeviceInfo& gpu) { return fmt::format("{}:{}", name(gpu.kind), gpu.index); }

std::string_view name(CpuIsa isa) {
  switch (isa) {
    case CpuIsa::generic:
      return "generic";
    case CpuIsa::neon:
      return "neon";
    case CpuIsa::avx2:
      return "avx2";
    case CpuIsa::avxvnni:
      return "avxvnni";
    case CpuIsa::avx512:
      return "avx512";
  }
  return "?";
}

std::optional<CpuIsa> cpu_isa_from_name(std::string_view text) {
  for (const CpuIsa isa : cpu_isas) {
    if (name(isa) == text) {
      return isa;
    }
  }
  return std::nullopt;
}

DeviceInfo cpu_device_info(CpuIsa isa_limit) {
  DeviceInfo device;
  device.kind = DeviceKind::cpu;
  device.name = processor_name();
  for (const CpuIsa isa : cpu_isas) {
    if (isa <= isa_limit && has(isa)) {
      device.cpu_isa = isa;
    }
  }
#if defined(__x86_64__)
  device.fast_bfloat_pairs = device.cpu_isa == CpuIsa::avx512 && __builtin_cpu_is("amd");
#endif
  device.avx_vnni = isa_limit >= CpuIsa::avxvnni && has(CpuIsa::avxvnni);
  device.architecture = name(device.cpu_isa);
  device.compute_units = available_processors();
  device.memory_bytes = static_cast<std::int64_t>(::sysconf(_SC_PHYS_PAGES)) * ::sysconf(_SC_PAGESIZE);
  return device;
}

}  // namespace rocmforge
