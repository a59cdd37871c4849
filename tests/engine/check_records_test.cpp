#include "engine/check_records.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "engine/plan_model.h"
#include "error_of.h"
#include "kernels/register_all.h"

namespace rocmforge {
namespace {

using ::testing::HasSubstr;

CheckRecord record() {
  return {.device = {.name = "A card",
                     .architecture = "gfx1100",
                     .runtime = "HIP 6.2",
                     .driver = "amdgpu 6.12",
                     .kernels = "0123456789abcdef",
                     .version = "1.0"},
          .date = "2026-03-01",
          .summary = "5 right, 1 wrong, 0 hung",
          .avoided = {{"matmul", "cpu", "wrong with Q4_K [64, 256], 3 tokens"}},
          .merged = MergedLaunches{true, "right, layers take 150.1 us in place of 155.9"},
          .product_groups = 1.5};
}

/// A folder that is removed at the end.
class CheckRecords : public ::testing::Test {
 protected:
  CheckRecords() : folder_(std::filesystem::path(::testing::TempDir()) / ("checks-" + std::to_string(::getpid()))) {
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
  other.merged.reset();
  other.product_groups.reset();
  save_check_record(folder_, other);
  save_check_record(folder_, other);  // replaces it
  const std::vector<CheckRecord> records = read_check_records(folder_);
  ASSERT_EQ(records.size(), 2u);
  const CheckRecord& first = records[records[0].device.version == "1.0" ? 0 : 1];
  EXPECT_EQ(first.device, record().device);
  EXPECT_EQ(first.summary, record().summary);
  ASSERT_EQ(first.avoided.size(), 1u);
  EXPECT_EQ(first.avoided[0].reason, record().avoided[0].reason);
  ASSERT_TRUE(first.merged);
  EXPECT_TRUE(first.merged->pays);
  EXPECT_EQ(first.merged->found, record().merged->found);
  EXPECT_EQ(first.product_groups, 1.5);
  EXPECT_FALSE(records[records[0].device.version == "1.1" ? 0 : 1].merged);
  EXPECT_FALSE(records[records[0].device.version == "1.1" ? 0 : 1].product_groups);
  EXPECT_THAT(path.filename().string(), ::testing::StartsWith("gfx1100-"));
}

TEST_F(CheckRecords, ADamagedFileIsLeftOut) {
  const std::filesystem::path path = save_check_record(folder_, record());
  for (const char* content : {"", "{", "[]", R"({"device": 3})"}) {
    std::ofstream(path) << content;
    EXPECT_TRUE(read_check_records(folder_).empty()) << content;
    EXPECT_FALSE(find_check_record(folder_, record().device)) << content;
  }
}

TEST_F(CheckRecords, WorkGroupsThatAreNoChoiceMakeAFileInvalid) {
  CheckRecord odd = record();
  odd.product_groups = 1000.0;
  save_check_record(folder_, odd);
  EXPECT_FALSE(find_check_record(folder_, odd.device));
}

TEST_F(CheckRecords, AFolderThatCannotBeMadeIsNamed) {
  std::ofstream(folder_) << "a file";
  EXPECT_THAT(test::error_of([&] { save_check_record(folder_, record()); }), HasSubstr(folder_.string()));
}

TEST_F(CheckRecords, AKernelIsAvoidedOnThisDeviceDriverAndVersionAlone) {
  save_check_record(folder_, record());
  EXPECT_FALSE(find_check_record({}, record().device)) << "no folder";
  for (std::string CheckedDevice::*part : {&CheckedDevice::name, &CheckedDevice::runtime, &CheckedDevice::driver,
                                           &CheckedDevice::kernels, &CheckedDevice::version}) {
    CheckedDevice other = record().device;
    (other.*part) += "x";
    EXPECT_FALSE(find_check_record(folder_, other)) << other.*part;
  }
  KernelRegistry registry;
  register_all_kernels(registry);

  const Matmul::Spec spec{DType::q8_0, 64, 256};
  const DeviceInfo cpu = cpu_device_info();
  EXPECT_TRUE(is_named(registry.choose<Matmul>(spec, cpu).kernel->name(), "cpu"));
  const std::optional<CheckRecord> found = find_check_record(folder_, record().device);
  ASSERT_TRUE(found);
  avoid_checked_kernels(*found, registry);
  const Choice<Matmul> choice = registry.choose<Matmul>(spec, cpu);
  EXPECT_EQ(choice.kernel->name(), "reference");
  EXPECT_THAT(choice.refusals.front().reason, HasSubstr("avoided since the check of 2026-03-01: wrong with Q4_K"));
  EXPECT_TRUE(is_named(registry.choose<RmsNorm>({64, 1e-5f}, cpu).kernel->name(), "cpu")) << "another operation";
}

/// Merging is on where it was asked for, or where the record found that it pays; the reason says which.
TEST(LaunchMergingTest, FollowsTheOptionAndTheRecord) {
  KernelRegistry registry;
  register_all_kernels(registry);
  DeviceInfo card;
  card.kind = DeviceKind::hip;
  card.architecture = "gfx1100";
  card.wave_size = 32;
  const auto decide = [&](MergeLaunches wanted, const std::optional<CheckRecord>& found = {}) {
    EngineOptions options;
    options.merge_launches = wanted;
    return decide_merging(options, registry, card, found);
  };
  EXPECT_TRUE(decide(MergeLaunches::on).on);
  EXPECT_FALSE(decide(MergeLaunches::off, record()).on);
  EXPECT_FALSE(decide(MergeLaunches::automatic).on);
  EXPECT_THAT(decide(MergeLaunches::automatic).why, HasSubstr("no saved check of this device"));
  EXPECT_TRUE(decide(MergeLaunches::automatic, record()).on);
  EXPECT_EQ(decide(MergeLaunches::automatic, record()).why,
            "the check of 2026-03-01: right, layers take 150.1 us in place of 155.9");
  CheckRecord hung = record();
  hung.merged = MergedLaunches{false, "hung with layers of Llama 2 7B"};
  EXPECT_FALSE(decide(MergeLaunches::automatic, hung).on);
  EXPECT_THAT(decide(MergeLaunches::automatic, hung).why, HasSubstr("hung with layers of Llama 2 7B"));
  EXPECT_TRUE(decide(MergeLaunches::on, hung).on) << "asked for";
  hung.merged.reset();
  EXPECT_FALSE(decide(MergeLaunches::automatic, hung).on) << "that check did not reach them";

  card.architecture = "gfx942";
  card.wave_size = 64;
  EXPECT_FALSE(decide(MergeLaunches::on, record()).on) << "no such kernels";
  card = cpu_device_info();
  EXPECT_FALSE(decide(MergeLaunches::on, record()).on);
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
