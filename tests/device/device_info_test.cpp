#include "device/device_info.h"

#include <gtest/gtest.h>

namespace rocmforge {
namespace {

TEST(CpuDeviceInfo, describes_this_machine) {
  const DeviceInfo device = cpu_device_info();
  EXPECT_EQ(device.kind, DeviceKind::cpu);
  EXPECT_FALSE(device.name.empty());
  EXPECT_GE(device.compute_units, 1);
  EXPECT_GT(device.memory_bytes, 64 << 20);
}

TEST(CpuDeviceInfo, never_exceeds_the_limit) {
  EXPECT_EQ(cpu_device_info(CpuIsa::generic).cpu_isa, CpuIsa::generic);
  EXPECT_LE(cpu_device_info(CpuIsa::avx2).cpu_isa, CpuIsa::avx2);
  EXPECT_FALSE(cpu_device_info(CpuIsa::avx2).avx_vnni);
  // A limit between two supported instruction sets selects the weaker one.
  const DeviceInfo limited = cpu_device_info(CpuIsa::avxvnni);
  EXPECT_EQ(limited.cpu_isa, limited.avx_vnni ? CpuIsa::avxvnni : cpu_device_info(CpuIsa::avx2).cpu_isa);
#if defined(__x86_64__)
  EXPECT_EQ(cpu_device_info(CpuIsa::neon).cpu_isa, CpuIsa::generic);
#endif
}

TEST(CpuIsa, names_round_trip) {
  for (const CpuIsa isa : cpu_isas) {
    EXPECT_EQ(cpu_isa_from_name(name(isa)), isa);
  }
  EXPECT_EQ(cpu_isa_from_name("sse9"), std::nullopt);
}

}  // namespace
}  // namespace rocmforge
