#include "device/device_info.h"

#include <unistd.h>
#if defined(__aarch64__)
#include <sys/auxv.h>
#endif

#include <fstream>

#include "base/thread_pool.h"

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

CpuIsa best_isa() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512vbmi") &&
      __builtin_cpu_supports("avx512bf16")) {
    return CpuIsa::avx512;
  }
  // F16C and BMI2 are in every processor with AVX2 and FMA.
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    return CpuIsa::avx2;
  }
#elif defined(__aarch64__)
  // The kernel's names for the dot products and the half precision arithmetic of Armv8.2.
  constexpr unsigned long needed = HWCAP_ASIMDDP | HWCAP_ASIMDHP;
  if ((::getauxval(AT_HWCAP) & needed) == needed) {
    return CpuIsa::neon;
  }
#endif
  return CpuIsa::generic;
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

std::string_view name(CpuIsa isa) {
  switch (isa) {
    case CpuIsa::generic:
      return "generic";
    case CpuIsa::neon:
      return "neon";
    case CpuIsa::avx2:
      return "avx2";
    case CpuIsa::avx512:
      return "avx512";
  }
  return "?";
}

std::optional<CpuIsa> cpu_isa_from_name(std::string_view text) {
  for (const CpuIsa isa : {CpuIsa::generic, CpuIsa::neon, CpuIsa::avx2, CpuIsa::avx512}) {
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
  const CpuIsa best = best_isa();
  device.cpu_isa = best <= isa_limit ? best : isa_limit == CpuIsa::neon ? CpuIsa::generic : isa_limit;
  device.architecture = name(device.cpu_isa);
  device.compute_units = available_processors();
  device.memory_bytes = static_cast<std::int64_t>(::sysconf(_SC_PHYS_PAGES)) * ::sysconf(_SC_PAGESIZE);
  return device;
}

}  // namespace rocmforge
