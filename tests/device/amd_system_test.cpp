#include "device/amd_system.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <span>

#include "temporary_folder.h"

namespace rocmforge {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr std::int64_t gib = std::int64_t{1} << 30;

/// A machine with the files that Linux and the kernel driver of AMD's GPUs have.
class AmdSystem : public testing::Test {
 protected:
  void add_node(const std::string& index, const std::string& version) {
    folder_.write("sys/class/kfd/kfd/topology/nodes/" + index + "/properties",
                  "cpu_cores_count 0\nsimd_count 80\ngfx_target_version " + version + "\nvendor_id 4098\n");
  }
  void add_memory(std::int64_t own, std::int64_t own_used, std::int64_t host, std::int64_t host_used) {
    const std::string card = "sys/bus/pci/devices/0000:c5:00.0/";
    folder_.write(card + "mem_info_vram_total", std::to_string(own) + "\n");
    folder_.write(card + "mem_info_vram_used", std::to_string(own_used) + "\n");
    folder_.write(card + "mem_info_gtt_total", std::to_string(host) + "\n");
    folder_.write(card + "mem_info_gtt_used", std::to_string(host_used) + "\n");
  }
  TemporaryFolder folder_;
};

TEST_F(AmdSystem, architectures_are_those_of_the_topology) {
  EXPECT_TRUE(amd_architectures(folder_.path()).empty());
  add_node("0", "0");  // the processor
  add_node("1", "110501");
  add_node("2", "90010");
  add_node("3", "100302");
  add_node("4", "text");
  EXPECT_THAT(amd_architectures(folder_.path()), ElementsAre("gfx1151", "gfx90a", "gfx1032"));
}

TEST_F(AmdSystem, names_the_kernel_driver) {
  EXPECT_EQ(amd_kernel_driver(folder_.path()), "");
  folder_.write("sys/module/amdgpu/uevent", "");
  folder_.write("proc/sys/kernel/osrelease", "6.8.0-45-generic\n");
  EXPECT_EQ(amd_kernel_driver(folder_.path()), "amdgpu of Linux 6.8.0-45-generic");
  folder_.write("sys/module/amdgpu/version", "6.12.12\n");
  EXPECT_EQ(amd_kernel_driver(folder_.path()), "amdgpu 6.12.12");
}

TEST_F(AmdSystem, says_what_keeps_the_runtime_from_a_card) {
  EXPECT_EQ(why_no_amd_gpu(folder_.path()), "");
  folder_.write("sys/bus/pci/devices/0000:00:02.0/vendor", "0x8086\n");
  folder_.write("sys/bus/pci/devices/0000:00:02.0/class", "0x030000\n");
  folder_.write("sys/bus/pci/devices/0000:03:00.1/vendor", "0x1002\n");
  folder_.write("sys/bus/pci/devices/0000:03:00.1/class", "0x040300\n");
  EXPECT_EQ(why_no_amd_gpu(folder_.path()), "") << "AMD's sound device is no GPU";
  folder_.write("sys/bus/pci/devices/0000:03:00.0/vendor", "0x1002\n");
  folder_.write("sys/bus/pci/devices/0000:03:00.0/class", "0x030000\n");
  EXPECT_EQ(why_no_amd_gpu(folder_.path()),
            "AMD GPUs on the PCI bus: 1, but the kernel driver provides none for compute programs: amdgpu is not loaded");
  add_node("1", "110000");
  EXPECT_EQ(why_no_amd_gpu(folder_.path()), "the kernel driver knows gfx1100, but /dev/kfd: No such file or directory");
  folder_.write("run/.containerenv", "");
  EXPECT_EQ(why_no_amd_gpu(folder_.path()),
            "the kernel driver knows gfx1100, but /dev/kfd: No such file or directory; a container gets them by "
            "--device=/dev/kfd --device=/dev/dri");
  folder_.write("dev/kfd", "");
  EXPECT_EQ(why_no_amd_gpu(folder_.path()),
            "the kernel driver knows gfx1100, but there is no /dev/dri/renderD*; a container gets them by --device=/dev/kfd "
            "--device=/dev/dri");
  folder_.write("dev/dri/renderD128", "");
  EXPECT_EQ(why_no_amd_gpu(folder_.path()), "the kernel driver knows gfx1100");
  add_node("2", "100307");
  EXPECT_EQ(why_no_amd_gpu(folder_.path()),
            "the kernel driver knows gfx1100, gfx1037; AMD's runtimes don't know gfx1037: HSA_OVERRIDE_GFX_VERSION=10.3.0 "
            "makes it a gfx1030");
}

TEST_F(AmdSystem, names_wsl) {
  folder_.write("proc/sys/kernel/osrelease", "5.15.167.4-microsoft-standard-WSL2\n");
  EXPECT_EQ(why_no_amd_gpu(folder_.path()), "this is WSL without /dev/dxg: Windows lends it no GPU");
  folder_.write("dev/dxg", "");
  EXPECT_EQ(why_no_amd_gpu(folder_.path()),
            "this is WSL, where the GPU is reached through /dev/dxg by a HIP runtime of ROCm for WSL alone");
}

TEST(ProcessorsGpu, is_known_by_its_architecture) {
  EXPECT_TRUE(is_processors_gpu("gfx1151"));
  EXPECT_TRUE(is_processors_gpu("gfx90c:xnack-"));
  EXPECT_FALSE(is_processors_gpu("gfx1100"));
  EXPECT_FALSE(is_processors_gpu("gfx90a:sramecc+:xnack-"));
}

TEST_F(AmdSystem, looks_for_the_runtime_where_rocm_puts_it) {
  for (const char* version : {"6.9.3", "6.10.0", "5.7.1"}) {
    folder_.write(std::string("opt/rocm-") + version + "/lib/libamdhip64.so", "");
  }
  const std::string opt = (folder_.path() / "opt").string();
  folder_.write("opt/rocm/core-7.12/lib/libamdhip64.so", "");
  const std::string pip = (folder_.path() / "venv/lib/python3.12/site-packages/_rocm_sdk_core/lib").string();
  for (const char* file : {"/libamdhip64.so.7", "/libamdhip64.so.10", "/libhiprtc.so.7"}) {
    folder_.write(pip + file, "");
  }
  folder_.write("venv/lib/node/site-packages/_rocm_sdk_core/lib/libamdhip64.so", "");
  const std::vector<std::filesystem::path> prefixes{folder_.path() / "nowhere", folder_.path() / "venv",
                                                    folder_.path() / "venv"};
  const auto pips = pip_rocm_folders(prefixes);
  const auto names = hip_runtime_names(std::vector<std::filesystem::path>{"/elsewhere/rocm"}, pips, folder_.path());
  EXPECT_THAT(names, ElementsAre("/elsewhere/rocm/lib/libamdhip64.so", "libamdhip64.so.8", "libamdhip64.so.7",
                                 "libamdhip64.so.6", opt + "/rocm/lib/libamdhip64.so",
                                 opt + "/rocm/core-7.12/lib/libamdhip64.so", opt + "/rocm-6.10.0/lib/libamdhip64.so",
                                 opt + "/rocm-6.9.3/lib/libamdhip64.so", opt + "/rocm-5.7.1/lib/libamdhip64.so",
                                 pip + "/libamdhip64.so.10", "libamdhip64.so.5", "libamdhip64.so"));
}

TEST_F(AmdSystem, looks_for_a_runtimes_libraries_beside_it) {
  const std::array names{"libhipblaslt.so.1", "libhipblaslt.so.0"};
  EXPECT_THAT(libraries_beside("libamdhip64.so.7", names), ElementsAre(names[0], names[1])) << "the loader finds both";
  EXPECT_THAT(libraries_beside("/opt/rocm-6.4/lib/libamdhip64.so", names),
              ElementsAre("/opt/rocm-6.4/lib/libhipblaslt.so.1", "/opt/rocm-6.4/lib/libhipblaslt.so.0"));
  const std::string packages = (folder_.path() / "site-packages").string();
  folder_.write(packages + "/_rocm_sdk_libraries_gfx110X_all/lib/libhipblaslt.so.1", "");
  EXPECT_THAT(libraries_beside(packages + "/_rocm_sdk_core/lib/libamdhip64.so.7", std::span(names).first(1)),
              ElementsAre(packages + "/_rocm_sdk_core/lib/libhipblaslt.so.1",
                          packages + "/_rocm_sdk_libraries_gfx110X_all/lib/libhipblaslt.so.1"));
}

TEST_F(AmdSystem, reads_a_cards_numbers_on_the_bus) {
  EXPECT_EQ(amd_pci_id("0000:c5:00.0", folder_.path()), "");
  folder_.write("sys/bus/pci/devices/0000:c5:00.0/vendor", "0x1002\n");
  folder_.write("sys/bus/pci/devices/0000:c5:00.0/device", "0x744c\n");
  EXPECT_EQ(amd_pci_id("0000:C5:00.0", folder_.path()), "1002:744c");
  EXPECT_EQ(amd_pci_id("../0000:c5:00.0", folder_.path()), "");
}

TEST_F(AmdSystem, reads_a_cards_link_and_firmware) {
  EXPECT_EQ(amd_pci_link("0000:c5:00.0", folder_.path()), "");
  EXPECT_EQ(amd_firmware("0000:c5:00.0", folder_.path()), "");
  EXPECT_EQ(amd_visible_bytes("0000:c5:00.0", folder_.path()), std::nullopt);
  const auto write = [this](const std::string& name, const std::string& text) {
    folder_.write("sys/bus/pci/devices/0000:c5:00.0/" + name, text + "\n");
  };
  write("current_link_speed", "16.0 GT/s PCIe");
  write("current_link_width", "8");
  EXPECT_EQ(amd_pci_link("0000:c5:00.0", folder_.path()), "16.0 GT/s PCIe x8");
  write("max_link_speed", "16.0 GT/s PCIe");
  write("max_link_width", "16");
  EXPECT_EQ(amd_pci_link("0000:c5:00.0", folder_.path()), "16.0 GT/s PCIe x8 of 16.0 GT/s PCIe x16");
  write("current_link_width", "16");
  EXPECT_EQ(amd_pci_link("0000:C5:00.0", folder_.path()), "16.0 GT/s PCIe x16");
  write("vbios_version", "113-D7020100-102");
  write("fw_version/smc_fw_version", "0x004e8500");
  EXPECT_EQ(amd_firmware("0000:c5:00.0", folder_.path()), "VBIOS 113-D7020100-102, SMC 0x004e8500");
  write("mem_info_vis_vram_total", "268435456");
  EXPECT_EQ(amd_visible_bytes("0000:c5:00.0", folder_.path()), 268435456);
  EXPECT_EQ(amd_pci_link("../0000:c5:00.0", folder_.path()), "");
}

TEST_F(AmdSystem, reads_a_cards_clocks_and_power) {
  const auto read = [this] { return amd_sensors("0000:C5:00.0", folder_.path()); };
  const auto write = [this](const std::string& name, const std::string& text) {
    folder_.write("sys/bus/pci/devices/0000:c5:00.0/" + name, text);
  };
  EXPECT_THAT(read().missing,
              ElementsAre("pp_dpm_sclk", "pp_dpm_mclk", "hwmon power1_average or power1_input", "hwmon power1_cap"));
  EXPECT_FALSE(read().core);
  write("pp_dpm_sclk", "0: 500Mhz\n1: 2304Mhz *\n2: 2500Mhz\n");
  write("pp_dpm_mclk", "0: 96Mhz *\n1: 1249Mhz\n");
  write("hwmon/hwmon4/power1_input", "31000000\n");
  EXPECT_EQ(read().core, (AmdClock{2304, 2500}));
  EXPECT_EQ(read().memory, (AmdClock{96, 1249}));
  EXPECT_EQ(read().watts, 31.0);
  EXPECT_THAT(read().missing, ElementsAre("hwmon power1_cap"));
  write("hwmon/hwmon4/power1_average", "303500000\n");
  write("hwmon/hwmon4/power1_cap", "355000000\n");
  EXPECT_EQ(read().watts, 303.5);
  EXPECT_EQ(read().watts_limit, 355.0);
  EXPECT_TRUE(read().missing.empty());
  write("pp_dpm_sclk", "S: 19Mhz *\n0: 500Mhz\n");
  EXPECT_EQ(read().core, (AmdClock{19, 500})) << "asleep";
  for (const char* other : {"", "\n\n", "0: 500Mhz\n", "*", ": *\n", "0: fast *\n", "0: -3Mhz *\n"}) {
    write("pp_dpm_sclk", other);
    EXPECT_FALSE(read().core) << other;
    EXPECT_THAT(read().missing, ElementsAre("pp_dpm_sclk")) << other;
  }
  EXPECT_EQ(amd_sensors("../0000:c5:00.0", folder_.path()).missing.size(), 4u);
}

TEST_F(AmdSystem, reads_a_cards_memory) {
  EXPECT_EQ(amd_card_memory("0000:c5:00.0", folder_.path()), std::nullopt);
  add_memory(4 * gib, gib, 60 * gib, 2 * gib);
  const AmdCardMemory expected{4 * gib, gib, 60 * gib, 2 * gib};
  EXPECT_EQ(amd_card_memory("0000:c5:00.0", folder_.path()), expected);
  EXPECT_EQ(amd_card_memory("0000:C5:00.0", folder_.path()), expected);
  EXPECT_EQ(amd_card_memory("", folder_.path()), std::nullopt);
  EXPECT_EQ(amd_card_memory("../../devices/0000:c5:00.0", folder_.path()), std::nullopt);
  folder_.write("sys/bus/pci/devices/0000:c5:00.0/mem_info_gtt_used", "text\n");
  EXPECT_EQ(amd_card_memory("0000:c5:00.0", folder_.path()), std::nullopt);
}

TEST(AmdFreeBytes, a_cards_own_memory_is_what_all_processes_have_left) {
  const AmdCardMemory card{24 * gib, 10 * gib, 32 * gib, 0};
  EXPECT_EQ(amd_free_bytes(20 * gib, 24 * gib, card, false, 2 * gib), 14 * gib);
  EXPECT_EQ(amd_free_bytes(12 * gib, 24 * gib, card, false, 2 * gib), 12 * gib);
}

TEST(AmdFreeBytes, an_apu_has_what_is_set_apart_or_what_the_host_has_left) {
  const AmdCardMemory set_apart{96 * gib, 6 * gib, 16 * gib, 0};
  EXPECT_EQ(amd_free_bytes(95 * gib, 96 * gib, set_apart, true, gib), 90 * gib) << "buffers lie in what is set apart";
  const AmdCardMemory in_host{gib / 2, gib / 4, 62 * gib, 2 * gib};
  EXPECT_EQ(amd_free_bytes(62 * gib, 62 * gib, in_host, true, 100 * gib), 60 * gib) << "no more than the driver grants";
  EXPECT_EQ(amd_free_bytes(62 * gib, 62 * gib, in_host, true, 20 * gib), 20 * gib) << "no more than the host has";
  EXPECT_EQ(amd_free_bytes(62 * gib, 62 * gib, in_host, true, std::nullopt), 60 * gib);
  EXPECT_EQ(amd_free_bytes(62 * gib, 62 * gib, {gib, 0, gib, 2 * gib}, true, gib), 0);
}

}  // namespace
}  // namespace rocmforge
