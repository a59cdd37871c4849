#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "check/check_report.h"
#include "checks/bad_kernels.h"
#include "error_of.h"

namespace rocmforge::test {
namespace {

using app::CaseReport;
using app::CaseVerdict;
using app::CheckRun;
using testing::HasSubstr;

CheckRun check_norms(const std::vector<std::string>& names, std::chrono::milliseconds call = std::chrono::seconds(60)) {
  app::ParentOptions options;
  options.call = call;
  return app::check_in_children([&] { return set_up_with(names); }, options);
}

std::vector<CaseReport> cases_named(const CheckRun& run, std::string_view kernel) {
  std::vector<CaseReport> cases;
  std::ranges::copy_if(run.cases, std::back_inserter(cases), [&](const CaseReport& one) { return one.kernel == kernel; });
  return cases;
}

/// The shapes of the kernel that is right and not one of `names`.
std::vector<CaseReport> others(const CheckRun& run, const std::vector<std::string>& names) {
  std::vector<CaseReport> cases;
  std::ranges::copy_if(run.cases, std::back_inserter(cases),
                       [&](const CaseReport& one) { return std::ranges::find(names, one.kernel) == names.end(); });
  return cases;
}

void expect_others_are_right(const CheckRun& run, const std::vector<std::string>& names) {
  const std::vector<CaseReport> rest = others(run, names);
  EXPECT_FALSE(rest.empty());
  for (const CaseReport& one : rest) {
    EXPECT_EQ(one.verdict, CaseVerdict::right) << one.kernel << " " << one.shape << ": " << one.detail;
  }
}

TEST(CheckParent, AKernelThatIsRightIsTimed) {
  const CheckRun run = check_norms({"right"});
  EXPECT_FALSE(run.failed());
  EXPECT_EQ(run.stopped, "");
  const std::vector<CaseReport> cases = cases_named(run, "right");
  ASSERT_EQ(cases.size(), 5u) << "1, 8 and 3 tokens, and 1 and 3 that are added";
  for (const CaseReport& one : cases) {
    EXPECT_EQ(one.verdict, CaseVerdict::right) << one.detail;
    EXPECT_EQ(one.oracle, "reference");
    EXPECT_GT(one.seconds, 0.0);
    EXPECT_GT(one.bytes, 0.0);
  }
  EXPECT_EQ(cases[1].elements, 8 * 64);
}

TEST(CheckParent, ThePhasesOfACheckAreMeasured) {
  const CheckRun run = check_norms({"right"});
  for (const CaseReport& one : cases_named(run, "right")) {
    const auto at = [&](CheckPhase phase) { return one.phases[static_cast<std::size_t>(phase)]; };
    EXPECT_GT(at(CheckPhase::inputs), 0.0);
    EXPECT_GT(at(CheckPhase::timing), 0.0);
  }
  EXPECT_EQ(app::json_report(run)["phase_seconds"].size(), PhaseSeconds().size());
  EXPECT_THAT(app::screen_report(run), HasSubstr("\ntime: making inputs "));
}

TEST(CheckParent, AWrongElementIsNamed) {
  const CheckRun run = check_norms({"wrong"});
  EXPECT_TRUE(run.failed());
  const CaseReport one = cases_named(run, "wrong").at(1);
  EXPECT_EQ(one.verdict, CaseVerdict::wrong);
  EXPECT_EQ(one.shape, "8 tokens");
  EXPECT_THAT(one.detail, HasSubstr("1 of 512 elements of out are wrong, the first in row 7, column 5: "));
  expect_others_are_right(run, {"wrong"});
  EXPECT_THAT(app::screen_report(run), HasSubstr("WRONG: rms_norm wrong (dim 64 eps 1e-05), 1 token: 1 of 64 elements"));
}

TEST(CheckParent, ARowThatIsNotWrittenIsNamed) {
  const CheckRun run = check_norms({"a_row_less"});
  const CaseReport one = cases_named(run, "a_row_less").at(1);
  EXPECT_EQ(one.verdict, CaseVerdict::wrong);
  EXPECT_THAT(one.detail, HasSubstr("64 of 512 elements of out are wrong (64 not written), the first in row 7, column 0"));
}

TEST(CheckParent, DifferentBitsAndStrayWritesAreFound) {
  const CheckRun run = check_norms({"unsteady", "past_the_end", "into_its_input"});
  EXPECT_THAT(cases_named(run, "unsteady").at(0).detail, HasSubstr("a second call with the same inputs gave other bits"));
  EXPECT_EQ(cases_named(run, "past_the_end").at(0).detail, "wrote outside of out");
  EXPECT_EQ(cases_named(run, "into_its_input").at(0).detail, "wrote to the input x");
  EXPECT_EQ(run.count(CaseVerdict::wrong), 15);
  expect_others_are_right(run, {"unsteady", "past_the_end", "into_its_input"});
}

TEST(CheckParent, AKernelThatNeverEndsIsNamedAndTheNextIsChecked) {
  const CheckRun run = check_norms({"endless"}, std::chrono::milliseconds(300));
  const std::vector<CaseReport> cases = cases_named(run, "endless");
  EXPECT_EQ(cases.at(0).verdict, CaseVerdict::hung);
  EXPECT_THAT(cases.at(0).detail, HasSubstr("launched last: endless"));
  EXPECT_EQ(cases.at(1).verdict, CaseVerdict::skipped);
  EXPECT_EQ(cases.at(1).detail, "the kernel hung before");
  EXPECT_FALSE(others(run, {"endless"}).empty());
  EXPECT_EQ(run.count(CaseVerdict::not_reached), 0);
}

TEST(CheckParent, AKernelThatEndsItsProcessIsNamedAndTheNextIsChecked) {
  const CheckRun run = check_norms({"aborting", "right"});
  const CaseReport one = cases_named(run, "aborting").at(0);
  EXPECT_EQ(one.verdict, CaseVerdict::crashed);
  EXPECT_THAT(one.detail, HasSubstr("the process ended with"));
  EXPECT_THAT(one.detail, HasSubstr("in a call; launched last: "));
  expect_others_are_right(run, {"aborting"});
  const std::vector<AvoidedKernel> failed = app::failed_kernels(run);
  ASSERT_EQ(failed.size(), 1u);
  EXPECT_EQ(failed[0].operation, "rms_norm");
  EXPECT_EQ(failed[0].kernel, "aborting");
  EXPECT_EQ(failed[0].reason, "crashed with dim 64 eps 1e-05, 1 token");
}

/// What a runtime reports of a GPU's fault reaches the report, although the process ends.
TEST(CheckParent, AFaultOfTheGpuIsNamedWithItsAddress) {
  const CheckRun run = check_norms({"faulting", "right"});
  const CaseReport one = cases_named(run, "faulting").at(0);
  EXPECT_EQ(one.verdict, CaseVerdict::crashed);
  EXPECT_THAT(one.detail, HasSubstr("the GPU faulted at address 0x1000 (page not present); launched last: "));
  EXPECT_THAT(one.detail, HasSubstr("faulting in a call"));
  expect_others_are_right(run, {"faulting"});
}

TEST(CheckParent, ChecksOfTheDeviceAreNotKernelsToAvoid) {
  CheckRun run;
  run.cases.push_back({.operation = "runtime",
                       .spec = "",
                       .kernel = "graph",
                       .shape = "200 kernels in a chain",
                       .verdict = CaseVerdict::wrong,
                       .detail = "3 of 300 numbers are wrong",
                       .oracle = ""});
  EXPECT_TRUE(run.failed());
  EXPECT_TRUE(app::failed_kernels(run).empty());
  EXPECT_THAT(app::screen_report(run),
              HasSubstr("WRONG: runtime graph, 200 kernels in a chain: 3 of 300 numbers are wrong"));
}

TEST(CheckParent, ItStopsBehindThreeDeathsInARow) {
  const auto make = [] {
    app::CheckSetUp set_up;
    set_up.device = std::make_unique<Device>();
    set_up.pool = std::make_unique<ThreadPool>(1);
    set_up.registry = std::make_unique<KernelRegistry>();
    for (const char* name : {"a", "b", "c", "d"}) {
      set_up.cases.push_back({"operation", "", name, "", [](CheckBench& bench) -> CallResult {
                                bench.on_phase(CheckPhase::call);
                                std::abort();
                              }});
    }
    return set_up;
  };
  const CheckRun run = app::check_in_children(make, {});
  EXPECT_EQ(run.count(CaseVerdict::crashed), 3);
  EXPECT_EQ(run.count(CaseVerdict::not_reached), 1);
  EXPECT_THAT(run.stopped, HasSubstr("3 kernels in a row did not end"));
}

TEST(CheckParent, ADeviceThatCannotBeSetUpIsAnError) {
  const auto throwing = []() -> app::CheckSetUp { throw Error("no such device"); };
  EXPECT_THAT(error_of([&] { static_cast<void>(app::check_in_children(throwing, {})); }), HasSubstr("no such device"));
  const auto aborting = []() -> app::CheckSetUp { std::abort(); };
  EXPECT_THAT(error_of([&] { static_cast<void>(app::check_in_children(aborting, {})); }),
              HasSubstr("the process that sets up the device ended"));
}

TEST(CheckParent, WhatIsNotReachedInTimeIsCounted) {
  app::ParentOptions options;
  options.total = std::chrono::milliseconds(1);
  const CheckRun run = app::check_in_children([] { return set_up_with({"right"}); }, options);
  EXPECT_GT(run.count(CaseVerdict::not_reached), 0);
  EXPECT_THAT(run.stopped, HasSubstr("the time of 0 s was over"));
  EXPECT_THAT(app::summary_of(run), HasSubstr("not reached"));
}

TEST(CheckParent, ReportsHaveEverythingAndFitIntoAnIssue) {
  CheckRun run = check_norms({"wrong", "right"});
  const nlohmann::ordered_json json = app::json_report(run);
  EXPECT_EQ(json["calls"].size(), run.cases.size());
  EXPECT_EQ(json["failed_kernels"][0]["kernel"], "wrong");
  EXPECT_FALSE(json["right"].get<bool>());
  const std::vector<CaseReport> few = run.cases;
  while (run.cases.size() < 3000) {
    run.cases.insert(run.cases.end(), few.begin(), few.end());
  }
  const std::string text = app::text_report(run);
  EXPECT_LT(text.size(), 65'000u);
  EXPECT_THAT(text, HasSubstr("WRONG: rms_norm wrong"));
  EXPECT_THAT(text, HasSubstr("more calls are in the JSON report"));
}

}  // namespace
}  // namespace rocmforge::test
