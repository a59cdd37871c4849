#include "device/kernel_library.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <fstream>
#include <string>

#include "base/error.h"
#include "error_of.h"
#include "temporary_folder.h"

namespace rocmforge::kernel_library_test {
namespace {

using test::error_of;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

constexpr std::string_view elf =
    "\x7f"
    "ELF and more";

DeviceInfo gpu(DeviceKind kind, std::string architecture) {
  DeviceInfo device;
  device.kind = kind;
  device.architecture = std::move(architecture);
  return device;
}

class KernelFolder : public testing::Test {
 protected:
  KernelFolder() {
    folder_.write("gfx942/matvec.hsaco", elf);
    folder_.write("gfx1100/elementwise.hsaco", elf);
    folder_.write("gfx1100/matvec.hsaco", std::string(elf) + "!");
    folder_.write("gfx1100/registers.json", "{}");
    folder_.write("gfx1100/other.cubin", elf);
    folder_.write("sm_90/elementwise.cubin", elf);
    folder_.write("sm_90a/elementwise.cubin", elf);
    folder_.write("sm_80/elementwise.cubin", elf);
    folder_.write("notes/elementwise.hsaco", "text");
    folder_.write("gfx1030", "a file, not a folder");
  }
  TemporaryFolder folder_;
};

TEST_F(KernelFolder, takes_the_code_objects_of_each_architecture) {
  KernelLibrary read = KernelLibrary::from_folder(folder_.path());
  const KernelLibrary library = std::move(read);
  EXPECT_THAT(library.architectures(), ElementsAre("gfx1100", "gfx942", "sm_80", "sm_90", "sm_90a"));
  const auto& objects = library.objects("gfx1100");
  ASSERT_EQ(objects.size(), 2);
  EXPECT_EQ(objects.at("elementwise").size(), elf.size());
  EXPECT_EQ(objects.at("matvec").size(), elf.size() + 1);
  EXPECT_EQ(static_cast<char>(objects.at("matvec").back()), '!');
}

/// HIP looks for the file behind the address it is given, and cuts the path at a blank.
TEST_F(KernelFolder, objects_lie_in_memory_that_belongs_to_no_file) {
  folder_.write("a blank/gfx1100/matvec.hsaco", elf);
  const KernelLibrary library = KernelLibrary::from_folder(folder_.path() / "a blank");
  const auto address = reinterpret_cast<std::uintptr_t>(library.objects("gfx1100").at("matvec").data());
  std::ifstream maps("/proc/self/maps");
  bool found = false;
  for (std::string line; std::getline(maps, line);) {
    std::uintptr_t begin = 0;
    std::uintptr_t end = 0;
    if (std::sscanf(line.c_str(), "%zx-%zx", &begin, &end) == 2 && begin <= address && address < end) {
      found = true;
      EXPECT_THAT(line, Not(HasSubstr("/"))) << "the file's pages";
    }
  }
  EXPECT_TRUE(found);
}

TEST_F(KernelFolder, serves_a_device_by_its_architecture_without_features) {
  const KernelLibrary library = KernelLibrary::from_folder(folder_.path());
  EXPECT_EQ(library.architecture_for(gpu(DeviceKind::hip, "gfx942:sramecc+:xnack-")), "gfx942");
  EXPECT_EQ(library.architecture_for(gpu(DeviceKind::hip, "gfx1100")), "gfx1100");
  EXPECT_EQ(library.architecture_for(gpu(DeviceKind::hip, "gfx1030")), "");
  EXPECT_EQ(library.architecture_for(gpu(DeviceKind::hip, "gfx11")), "");
  EXPECT_EQ(library.architecture_for(gpu(DeviceKind::cuda, "sm_90")), "sm_90a");
  EXPECT_EQ(library.architecture_for(gpu(DeviceKind::cuda, "sm_80")), "sm_80");
  EXPECT_EQ(library.architecture_for(gpu(DeviceKind::cuda, "sm_100")), "");
  EXPECT_EQ(library.architecture_for(gpu(DeviceKind::cpu, "gfx1100")), "");
}

TEST_F(KernelFolder, generic_objects_serve_a_generation_without_its_own) {
  folder_.write("gfx11-generic/matvec.hsaco", elf);
  folder_.write("gfx10-3-generic/matvec.hsaco", elf);
  const KernelLibrary library = KernelLibrary::from_folder(folder_.path());
  EXPECT_EQ(library.architecture_for(gpu(DeviceKind::hip, "gfx1100")), "gfx1100") << "its own are better";
  EXPECT_EQ(library.architecture_for(gpu(DeviceKind::hip, "gfx1153:xnack-")), "gfx11-generic");
  EXPECT_EQ(library.architecture_for(gpu(DeviceKind::hip, "gfx1036")), "gfx10-3-generic");
  EXPECT_EQ(library.architecture_for(gpu(DeviceKind::hip, "gfx1154")), "gfx11-generic") << "not known yet";
  EXPECT_EQ(library.architecture_for(gpu(DeviceKind::hip, "gfx1170")), "") << "another instruction set";
  EXPECT_EQ(library.architecture_for(gpu(DeviceKind::hip, "gfx1012")), "");
  EXPECT_EQ(library.architecture_for(gpu(DeviceKind::hip, "gfx90a")), "") << "belongs to no generic target";
}

TEST(KernelLibrary, says_how_kernels_are_made) {
  EXPECT_EQ(how_to_compile_kernels(gpu(DeviceKind::hip, "gfx942:sramecc+:xnack-")),
            "`./forge kernels gfx942` compiles them, and the next build embeds them");
}

TEST_F(KernelFolder, names_what_is_there_when_an_architecture_is_missing) {
  const KernelLibrary library = KernelLibrary::from_folder(folder_.path());
  EXPECT_EQ(error_of([&] { (void)library.objects("gfx1201"); }),
            "no kernels for gfx1201: there are some for gfx1100, gfx942, sm_80, sm_90, sm_90a");
  EXPECT_EQ(error_of([] { (void)KernelLibrary().objects("gfx1201"); }),
            "no kernels for gfx1201: there are none for any GPU");
}

TEST_F(KernelFolder, refuses_a_file_that_is_no_code_object) {
  folder_.write("gfx1100/broken.hsaco", "<!doctype html>");
  EXPECT_EQ(error_of([&] { KernelLibrary::from_folder(folder_.path()); }),
            (folder_.path() / "gfx1100/broken.hsaco").string() + ": not a code object (it does not begin as an ELF file)");
}

// The mark is what tools/build/gfx12_waits.py writes. Other cards need none.
TEST_F(KernelFolder, refuses_an_object_of_rdna4_without_waits_when_it_is_used) {
  for (const std::string architecture : {"gfx1200", "gfx1201", "gfx12-generic"}) {
    folder_.write(architecture + "/elementwise.hsaco", std::string(elf) + "...rocmforge: gfx12 waits 1...");
    folder_.write(architecture + "/matvec.hsaco", std::string(elf) + "rocmforge: gfx12 waits 0");
    const KernelLibrary library = KernelLibrary::from_folder(folder_.path());
    EXPECT_EQ(error_of([&] { (void)library.objects(architecture); }),
              architecture + ": matvec: compiled without the waits that this architecture needs; `./forge kernels " +
                  architecture + "` makes it anew");
    EXPECT_EQ(library.objects("gfx1100").size(), 2);
    folder_.write(architecture + "/matvec.hsaco", std::string(elf) + "rocmforge: gfx12 waits 1");
    EXPECT_EQ(KernelLibrary::from_folder(folder_.path()).objects(architecture).size(), 2);
  }
}

TEST(KernelLibrary, names_a_folder_that_cannot_be_read_or_is_empty) {
  EXPECT_EQ(error_of([] { KernelLibrary::from_folder("/nowhere/kernels"); }),
            "cannot read the kernel folder /nowhere/kernels: No such file or directory");
  const TemporaryFolder empty;
  EXPECT_EQ(error_of([&] { KernelLibrary::from_folder(empty.path()); }),
            "the kernel folder " + empty.path().string() +
                " holds no code object such as gfx1100/NAME.hsaco or sm_90a/NAME.cubin, nor kernels.archive");
}

}  // namespace
}  // namespace rocmforge::kernel_library_test
