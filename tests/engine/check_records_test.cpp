#include "engine/check_records.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "error_of.h"
#include "kernels/register_all.h"

namespace rocmforge {
namespace {

using testing::HasSubstr;

CheckRecord record() {
  return {.device = {.name = "A card", .architecture = "gfx1100", .runtime = "HIP 6.2", .version = "1.0"},
          .date = "2026-03-01",
          .summary = "5 right, 1 wrong, 0 hung",
          .avoided = {{"matmul", "cpu", "wrong with Q4_K [64, 256], 3 tokens"}}};
}

/// A folder that is removed at the end.
class CheckRecords : public testing::Test {
 protected:
  CheckRecords() : folder_(std::filesystem::path(testing::TempDir()) / ("checks-" + std::to_string(::getpid()))) {
    std::filesystem::remove_all(folder_);
  }
  ~CheckRecords() override { std::filesystem::remove_all(folder_); }

  std::filesystem::path folder_;
};

TEST_F(CheckRecords, AreReadAsTheyWereWritten) {
  EXPECT_TRUE(read_check_records(folder_).empty()) << "no folder";
  const std::filesystem::path path = save_check_record(folder_, record());
  CheckRecord other = record();
  other.device.version = "1.1";
  other.avoided.clear();
  save_check_record(folder_, other);
  save_check_record(folder_, other);  // replaces it
  const std::vector<CheckRecord> records = read_check_records(folder_);
  ASSERT_EQ(records.size(), 2u);
  const CheckRecord& first = records[records[0].device.version == "1.0" ? 0 : 1];
  EXPECT_EQ(first.device, record().device);
  EXPECT_EQ(first.summary, record().summary);
  ASSERT_EQ(first.avoided.size(), 1u);
  EXPECT_EQ(first.avoided[0].reason, record().avoided[0].reason);
  EXPECT_THAT(path.filename().string(), testing::StartsWith("gfx1100-"));
}

TEST_F(CheckRecords, ADamagedFileIsLeftOut) {
  const std::filesystem::path path = save_check_record(folder_, record());
  for (const char* content : {"", "{", "[]", R"({"device": 3})"}) {
    std::ofstream(path) << content;
    EXPECT_TRUE(read_check_records(folder_).empty()) << content;
    KernelRegistry registry;
    avoid_checked_kernels(folder_, record().device, registry);
    EXPECT_TRUE(registry.avoided().empty());
  }
}

TEST_F(CheckRecords, AFolderThatCannotBeMadeIsNamed) {
  std::ofstream(folder_) << "a file";
  EXPECT_THAT(test::error_of([&] { save_check_record(folder_, record()); }), HasSubstr(folder_.string()));
}

TEST_F(CheckRecords, AKernelIsAvoidedOnThisDeviceDriverAndVersionAlone) {
  save_check_record(folder_, record());
  KernelRegistry registry;
  register_all_kernels(registry);
  CheckedDevice other = record().device;
  other.runtime = "HIP 7.0";
  avoid_checked_kernels(folder_, other, registry);
  EXPECT_TRUE(registry.avoided().empty());

  const Matmul::Spec spec{DType::q8_0, 64, 256};
  const DeviceInfo cpu = cpu_device_info();
  EXPECT_TRUE(is_named(registry.choose<Matmul>(spec, cpu).kernel->name(), "cpu"));
  avoid_checked_kernels(folder_, record().device, registry);
  const Choice<Matmul> choice = registry.choose<Matmul>(spec, cpu);
  EXPECT_EQ(choice.kernel->name(), "reference");
  EXPECT_THAT(choice.refusals.front().reason, HasSubstr("avoided since the check of 2026-03-01: wrong with Q4_K"));
  EXPECT_TRUE(is_named(registry.choose<RmsNorm>({64, 1e-5f}, cpu).kernel->name(), "cpu")) << "another operation";
}

TEST_F(CheckRecords, AForcedKernelThatIsAvoidedIsRefusedWithTheReason) {
  KernelRegistry registry;
  register_all_kernels(registry);
  registry.avoid({"", "reference", "--without reference"});
  const auto choose = [&] {
    static_cast<void>(registry.choose<Matmul>({DType::q8_0, 64, 256}, cpu_device_info(), "reference"));
  };
  EXPECT_THAT(test::error_of(choose), HasSubstr("reference: --without reference"));
}

}  // namespace
}  // namespace rocmforge
