#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>

#include "apps/program.h"

namespace rocmforge {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

std::string content_of(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::ostringstream content;
  content << file.rdbuf();
  return content.str();
}

/// `rocmforge check` on the processor; what it saves lies in a folder of its own.
class CheckProgram : public testing::Test {
 protected:
  ProgramResult run(std::vector<std::string> arguments) {
    return run_program(arguments, "", {"XDG_STATE_HOME=" + folder_.path().string()});
  }
  std::string in_folder(const std::string& name) { return (folder_.path() / name).string(); }

  TemporaryFolder folder_;
};

TEST_F(CheckProgram, TheDemoModelsKernelsAreRight) {
  if (!has_demo_model()) {
    GTEST_SKIP() << demo_model() << " is absent";
  }
  const ProgramResult result = run({"check", demo_model().string(), "--device", "cpu", "--threads", "2", "--seconds", "3",
                                    "--json", in_folder("report.json"), "--text", in_folder("report.md")});
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  EXPECT_THAT(result.out, HasSubstr("result: "));
  EXPECT_THAT(result.out, HasSubstr("| matmul"));
  const json report = json::parse(content_of(in_folder("report.json")));
  EXPECT_EQ(report["right"], true);
  EXPECT_EQ(report["machine"]["model"], "forge-demo.gguf");
  EXPECT_GT(report["ceilings"]["read_bytes_per_second"], 0.0);
  std::set<std::string> operations;
  int right = 0;
  for (const json& call : report["calls"]) {
    operations.insert(call["operation"]);
    right += call["verdict"] == "right" ? 1 : 0;
  }
  EXPECT_GT(right, 0);
  for (const char* operation : {"embedding", "rms_norm", "matmul", "rope_append", "attention", "sample"}) {
    EXPECT_TRUE(operations.contains(operation)) << operation;
  }
  EXPECT_THAT(content_of(in_folder("report.md")), HasSubstr("Nothing was sent."));
}

TEST_F(CheckProgram, WithoutAModelAListIsChecked) {
  const ProgramResult result = run({"check", "--device", "cpu", "--threads", "2", "--seconds", "1"});
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  EXPECT_THAT(result.out, HasSubstr("model: none"));
  EXPECT_THAT(result.out, HasSubstr("not reached"));
}

TEST_F(CheckProgram, OnlyTheNamedKernelsAreChecked) {
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"check", "--device", "cpu", "--only"});
    return run(more);
  };
  const ProgramResult some = with({"rms_norm:cpu", "--only", "embedding:cpu", "--list"});
  EXPECT_EQ(some.exit_code, 0) << some.out << some.err;
  EXPECT_THAT(some.out, HasSubstr("  rms_norm cpu"));
  EXPECT_THAT(some.out, HasSubstr("  embedding cpu"));
  EXPECT_THAT(some.out, Not(HasSubstr("  matmul ")));
  const ProgramResult checked = with({"rms_norm:cpu", "--threads", "2", "--seconds", "1"});
  EXPECT_EQ(checked.exit_code, 0) << checked.out << checked.err;
  EXPECT_THAT(checked.out, HasSubstr(" calls of 1 kernels in "));

  const ProgramResult unknown = with({"rms_norm:cpy"});
  EXPECT_EQ(unknown.exit_code, 2);
  EXPECT_THAT(unknown.err, HasSubstr("--only rms_norm:cpy: there is no kernel 'cpy'"));
  const ProgramResult elsewhere = with({"attention:hopper_prefill"});
  EXPECT_EQ(elsewhere.exit_code, 1);
  EXPECT_THAT(elsewhere.err, HasSubstr("--only attention:hopper_prefill: no call of this check is of this kernel"));
  const ProgramResult saved = with({"rms_norm:cpu", "--save"});
  EXPECT_EQ(saved.exit_code, 2);
  EXPECT_THAT(saved.err, HasSubstr("--save: a check of some kernels alone (--only) is not kept"));
}

TEST_F(CheckProgram, WhatIsSavedIsReadByLaterRuns) {
  if (!has_demo_model()) {
    GTEST_SKIP() << demo_model() << " is absent";
  }
  const std::string model = demo_model().string();
  const ProgramResult saved =
      run({"check", model, "--device", "cpu", "--threads", "2", "--seconds", "1", "--save", "--without", "matmul:cpu"});
  EXPECT_EQ(saved.exit_code, 0) << saved.out << saved.err;
  EXPECT_THAT(saved.out, HasSubstr("saved: " + folder_.path().string()));

  const ProgramResult plan = run({"inspect", model, "--plan", "--json", "--device", "cpu"});
  EXPECT_THAT(plan.err, HasSubstr("kernels that the check of "));
  EXPECT_THAT(plan.err, HasSubstr("found wrong are not used: matmul:cpu (--without matmul:cpu was given to the check)"));
  EXPECT_THAT(plan.out, HasSubstr("avoided since the check of "));
  const ProgramResult all = run({"run", model, "--device", "cpu", "-n", "1", "-p", "Hi", "--no-avoid"});
  EXPECT_EQ(all.exit_code, 0) << all.err;
  EXPECT_EQ(all.err.find("are not used"), std::string::npos) << all.err;

  const ProgramResult devices = run({"devices"});
  EXPECT_THAT(devices.out, HasSubstr("checked on "));
  EXPECT_THAT(devices.out, HasSubstr(" right, 0 wrong"));
}

TEST_F(CheckProgram, WithoutAKernelThePlanTakesAnother) {
  if (!has_demo_model()) {
    GTEST_SKIP() << demo_model() << " is absent";
  }
  const std::string model = demo_model().string();
  const ProgramResult result =
      run({"inspect", model, "--plan", "--json", "--device", "cpu", "--without", "matmul:cpu", "--without", "rms_norm:cpu"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  const json document = json::parse(result.out);
  const std::string text = document.dump();
  EXPECT_THAT(text, HasSubstr("--without matmul:cpu"));
  EXPECT_EQ(run({"run", model, "--device", "cpu", "--greedy", "-p", "What is 1 + 1?", "--without", "matmul:cpu"}).out,
            "2\n");
}

TEST_F(CheckProgram, SafeTakesPortableKernelsAlone) {
  if (!has_demo_model()) {
    GTEST_SKIP() << demo_model() << " is absent";
  }
  const std::string model = demo_model().string();
  const ProgramResult plan = run({"inspect", model, "--plan", "--json", "--device", "cpu", "--safe"});
  EXPECT_EQ(plan.exit_code, 0) << plan.err;
  const std::set<std::string> portable = {"cpu", "cpu_generic", "reference"};
  const json document = json::parse(plan.out);
  for (const json& operation : document.at("plan").at("operations")) {
    EXPECT_TRUE(portable.contains(operation.at("kernel"))) << operation;
  }
  EXPECT_EQ(run({"run", model, "--device", "cpu", "--greedy", "-p", "What is 1 + 1?", "--safe"}).out, "2\n");
}

TEST_F(CheckProgram, AnUnknownKernelIsAnErrorWithSimilarNames) {
  const ProgramResult kernel = run({"run", "-p", "Hi", "--without", "referense"});
  EXPECT_EQ(kernel.exit_code, 2);
  EXPECT_THAT(kernel.err, HasSubstr("--without referense: there is no kernel 'referense'; did you mean reference?"));
  const ProgramResult operation = run({"bench", "matmul", "--without", "matmull:gpu"});
  EXPECT_EQ(operation.exit_code, 2);
  EXPECT_THAT(operation.err, HasSubstr("there is no operation 'matmull'; did you mean matmul?"));
}

TEST_F(CheckProgram, AStepThatDoesNotEndInItsTimeEndsTheProgram) {
  if (!has_demo_model()) {
    GTEST_SKIP() << demo_model() << " is absent";
  }
  const ProgramResult result = run({"run", "--device", "cpu", "-p", "What is 127 + 458?", "--step-timeout", "0.0001"});
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_THAT(result.err, HasSubstr("a step has not ended in 0.0 s; launched last: "));
}

TEST_F(CheckProgram, ADeviceThatDoesNotExistIsOneLine) {
  const ProgramResult result = run({"check", "--device", "cuda:77"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("rocmforge: "));
}

}  // namespace
}  // namespace rocmforge
