#include "device/hip_runtimes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "device/runtimes.h"
#include "temporary_folder.h"

namespace rocmforge {
namespace {

using testing::ElementsAre;

// Files of fakes: of version 5 without a device, of 6 whose initialisation fails, of 4 without a function that is needed
// here, and of 7 with two devices.
const std::string without_device = ROCMFORGE_FAKE_HIP_NONE;
const std::string failing = ROCMFORGE_FAKE_HIP_FAILING;
const std::string too_old = ROCMFORGE_FAKE_HIP_OLD;
const std::string with_devices = ROCMFORGE_FAKE_HIP_TWO;

std::vector<std::string> problems(const HipChoice& choice) {
  std::vector<std::string> texts;
  for (const TriedRuntime& tried : choice.tried) {
    texts.push_back(tried.version + ": " + (tried.problem.empty() ? std::to_string(tried.devices) : tried.problem));
  }
  return texts;
}

TEST(ChooseHipRuntime, takes_the_first_that_has_devices) {
  const std::vector<std::string> names{"libnowhere.so.9", without_device, failing, with_devices, too_old};
  const HipChoice choice = choose_hip_runtime(names);
  EXPECT_EQ(choice.library, with_devices);
  EXPECT_THAT(problems(choice), ElementsAre("5.2.21153: no device", "6.1.40091: hipInit: error 999", "7.0.2: 2"));
}

TEST(ChooseHipRuntime, a_runtime_that_lacks_a_function_is_passed_over) {
  const HipChoice choice = choose_hip_runtime(std::vector{too_old, with_devices});
  EXPECT_EQ(choice.library, with_devices);
  ASSERT_EQ(choice.tried.size(), 2);
  EXPECT_EQ(choice.tried[0].problem,
            choice.tried[0].library + " has no function hipGraphInstantiateWithFlags: it is too old");
}

TEST(ChooseHipRuntime, keeps_the_first_where_none_has_devices) {
  EXPECT_EQ(choose_hip_runtime(std::vector{without_device, failing}).library, without_device);
  EXPECT_EQ(choose_hip_runtime(std::vector<std::string>{"libnowhere.so.9"}).library, "");
}

/// Before the runtime starts, whether it is chosen or listed.
TEST(ChooseHipRuntime, allows_one_hardware_queue_unless_the_user_says_how_many) {
  const std::vector<std::string> names{ROCMFORGE_FAKE_HIP_QUEUES};
  const auto problem = [&] { return choose_hip_runtime(names).tried.at(0).problem; };
  ASSERT_EQ(::unsetenv("GPU_MAX_HW_QUEUES"), 0);
  EXPECT_EQ(list_hip_runtimes(names, 5).at(0).problem, "hipInit: error 1");
  EXPECT_EQ(std::getenv("GPU_MAX_HW_QUEUES"), nullptr) << "the list is made in other processes";
  EXPECT_EQ(problem(), "hipInit: error 1");
  ASSERT_EQ(::setenv("GPU_MAX_HW_QUEUES", "4", 1), 0);
  EXPECT_EQ(problem(), "hipInit: error 4");
  ASSERT_EQ(::unsetenv("GPU_MAX_HW_QUEUES"), 0);
}

TEST(ChooseHipRuntime, tries_a_file_once_whatever_its_names) {
  const TemporaryFolder folder;
  const std::string link = (folder.path() / "libamdhip64.so").string();
  std::filesystem::create_symlink(without_device, link);
  EXPECT_EQ(choose_hip_runtime(std::vector{without_device, link}).tried.size(), 1);
}

/// One that crashes or hangs does not take the program with it.
TEST(ListHipRuntimes, tries_each_in_a_process_of_its_own) {
  const std::vector<std::string> names{"libnowhere.so.9",          without_device, ROCMFORGE_FAKE_HIP_CRASHING,
                                       ROCMFORGE_FAKE_HIP_HANGING, with_devices,   with_devices};
  std::vector<std::string> lines;
  for (const TriedRuntime& tried : list_hip_runtimes(names, 1)) {
    lines.push_back(tried.library + " " + tried.version + " " + std::to_string(tried.devices) + " " + tried.problem);
  }
  EXPECT_THAT(lines, ElementsAre(without_device + " 5.2.21153 0 no device",
                                 std::string(ROCMFORGE_FAKE_HIP_CRASHING) + "  0 crashes: Aborted",
                                 std::string(ROCMFORGE_FAKE_HIP_HANGING) + "  0 does not answer for 1 s",
                                 with_devices + " 7.0.2 2 "));
}

DeviceInfo gpu(int index, bool integrated, int units, std::int64_t memory_bytes) {
  DeviceInfo device;
  device.kind = DeviceKind::hip;
  device.index = index;
  device.integrated = integrated;
  device.compute_units = units;
  device.memory_bytes = memory_bytes;
  return device;
}

TEST(BestFirst, cards_come_before_integrated_gpus_and_large_ones_before_small_ones) {
  std::vector<int> order;
  for (const DeviceInfo& device : best_first({gpu(0, true, 20, 96), gpu(1, false, 16, 8), gpu(2, false, 48, 24),
                                              gpu(3, false, 48, 32), gpu(4, true, 1, 16), gpu(5, false, 16, 8)})) {
    order.push_back(device.index);
  }
  EXPECT_THAT(order, ElementsAre(3, 2, 1, 5, 0, 4));
}

TEST(BestFirst, the_smallest_integrated_gpu_is_not_taken_unless_named) {
  EXPECT_TRUE(drives_displays_alone(gpu(0, true, 1, 16)));
  EXPECT_TRUE(drives_displays_alone(gpu(0, true, 2, 16)));
  EXPECT_FALSE(drives_displays_alone(gpu(0, true, 4, 16)));
  EXPECT_FALSE(drives_displays_alone(gpu(0, false, 2, 16)));
}

}  // namespace
}  // namespace rocmforge
