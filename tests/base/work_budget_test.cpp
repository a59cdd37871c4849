#include "base/work_budget.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>
#include <thread>

namespace rocmforge {
namespace {

TEST(WorkBudget, GivesOutWhatItHoldsAndNamesTheLimit) {
  WorkBudget budget(10, "reading the text");
  budget.spend(4);
  budget.spend(6);
  budget.spend(0);
  EXPECT_EQ(budget.spent(), 10u);
  try {
    budget.spend(1);
    FAIL() << "more than the budget was spent";
  } catch (const Interrupted&) {
    FAIL() << "nobody stopped it";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "reading the text takes more than the 10 units of work that are allowed");
  }
}

TEST(WorkBudget, HugeAmountsDoNotWrapAndNothingIsLeftBehindThem) {
  WorkBudget budget(10, "reading the text");
  EXPECT_THROW(budget.spend(std::numeric_limits<std::uint64_t>::max()), Error);
  EXPECT_THROW(budget.spend(1), Error);
  EXPECT_EQ(budget.spent(), 10u);
}

TEST(WorkBudget, AnotherThreadStopsTheTask) {
  WorkBudget budget(std::numeric_limits<std::uint64_t>::max(), "reading the text");
  std::jthread other([&] { budget.stop(); });
  std::string reason;
  try {
    for (;;) {
      budget.spend(1);
    }
  } catch (const Interrupted& stopped) {
    reason = stopped.what();
  }
  EXPECT_EQ(reason, "reading the text was stopped");
}

}  // namespace
}  // namespace rocmforge
