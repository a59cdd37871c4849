#include "bench/card_sensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "check/check_report.h"
#include "checks/bad_kernels.h"

namespace rocmforge::test {
namespace {

using app::CheckRun;
using testing::HasSubstr;

AmdSensors readings(double core, std::optional<double> watts) {
  return {.core = AmdClock{core, 2500},
          .memory = AmdClock{1249, 1249},
          .watts = watts,
          .watts_limit = 355.0,
          .missing = {"hwmon power1_cap"}};
}

TEST(SensorLogTest, TellsRangesAndWhatIsMissing) {
  app::SensorLog log(readings(500, 12));
  EXPECT_EQ(log.describe().at("during"), "");
  log.add(readings(2300, 210));
  log.add(readings(2500, std::nullopt));
  log.add(readings(2400, 330));
  EXPECT_EQ(log.describe().at("before"), "core 500 of 2500 MHz, memory 1249 of 1249 MHz, 12 W of 355");
  EXPECT_EQ(log.describe().at("during"),
            "core 2300 to 2500 (mean 2400) MHz, memory 1249 MHz, 210 to 330 (mean 270) W, 3 readings");
  EXPECT_EQ(log.describe().at("not read"), "hwmon power1_cap");
  const app::SensorLog nothing(AmdSensors{.core = {}, .memory = {}, .watts = {}, .watts_limit = {}, .missing = {"all"}});
  EXPECT_EQ(nothing.describe().at("before"), "") << "a missing file is no zero";
}

/// A card whose clock rises with each reading, beside kernels that are timed.
TEST(SensorLogTest, TheReportHasWhatWasReadBeforeAndWhileKernelsAreTimed) {
  const CheckRun run = app::check_in_children(
      [] {
        app::CheckSetUp set_up = set_up_with({"right"});
        auto count = std::make_shared<std::atomic<int>>(0);
        set_up.sensors = [count] { return readings(500.0 + (*count)++, 12); };
        set_up.ceilings = [](app::CheckSetUp&) {
          std::this_thread::sleep_for(std::chrono::milliseconds(200));
          return nlohmann::ordered_json::object();
        };
        return set_up;
      },
      {});
  EXPECT_FALSE(run.failed());
  ASSERT_TRUE(run.sensors.is_object());
  EXPECT_EQ(run.sensors.at("before"), "core 500 of 2500 MHz, memory 1249 of 1249 MHz, 12 W of 355");
  EXPECT_THAT(run.sensors.at("during"), HasSubstr("core 501"));
  EXPECT_THAT(app::screen_report(run), HasSubstr("sensors before: core 500 of 2500 MHz"));
  EXPECT_THAT(app::screen_report(run), HasSubstr("sensors not read: hwmon power1_cap"));
  EXPECT_TRUE(app::check_in_children([] { return set_up_with({"right"}); }, {}).sensors.is_null());
}

}  // namespace
}  // namespace rocmforge::test
