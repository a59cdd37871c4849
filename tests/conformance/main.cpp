// The program's fixture: the device is opened once, tests run on it one after another, and their memory must be free again
// at the end.

#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "conformance/case_watch.h"
#include "conformance/compared.h"
#include "conformance/harness.h"

namespace rocmforge::test {
namespace {

/// The exit code that ctest takes as "skipped".
constexpr int skipped = 77;

/// What this program holds of the device, not what is free: other programs may use the same device.
class DeviceEnvironment : public testing::Environment {
 public:
  void SetUp() override { held_bytes_ = device().allocated_bytes(); }
  void TearDown() override {
    std::printf("%s", compared_table().c_str());
    constexpr std::size_t counters = Stream::most_counters * sizeof(std::uint32_t);  // which a stream keeps
    EXPECT_LE(device().allocated_bytes(), held_bytes_ + counters) << "device memory of the tests was not freed";
  }

 private:
  static const Device& device() { return *harness().target.device; }

  std::size_t held_bytes_ = 0;
};

/// Tests by where they run, unless the command line says which.
void choose_tests(std::string_view device) {
  if (GTEST_FLAG_GET(filter) == "*") {
    GTEST_FLAG_SET(filter, device == "cpu" ? "*-*Huge*" : device.starts_with("emulated:") ? "*Tiny*" : "*");
  }
}

int run(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  choose_tests(environment("ROCMFORGE_TEST_DEVICE", "cpu"));
  if (GTEST_FLAG_GET(list_tests)) {
    return RUN_ALL_TESTS();
  }
  const TestDevice& device = harness().test_device();
  if (device.device == nullptr) {
    std::printf("[  SKIPPED ] all tests: no device '%s': %s\n", device.wanted.c_str(), device.problem.c_str());
    return skipped;
  }
  std::printf("device: %s (%s)\n", harness().device.name.c_str(), harness().device.architecture.c_str());
  testing::AddGlobalTestEnvironment(new DeviceEnvironment);  // GoogleTest deletes it
  if (const int limit = std::atoi(environment("ROCMFORGE_TEST_CASE_SECONDS").c_str()); limit > 0) {
    testing::UnitTest::GetInstance()->listeners().Append(new CaseWatch(std::chrono::seconds(limit)));  // and this
  }
  return RUN_ALL_TESTS();
}

}  // namespace
}  // namespace rocmforge::test

int main(int argc, char** argv) {
  const int result = rocmforge::test::run(argc, argv);
  rocmforge::test::close_harness();
  return result;
}
