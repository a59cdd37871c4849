// The measurements of single kernels, which compare every element.

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "apps/program.h"

namespace rocmforge {
namespace {

using nlohmann::json;

TEST(BenchMatmul, FindsEveryKernelOfTheCpuRight) {
  const ProgramResult result = run_program({"bench", "matmul", "--device", "cpu", "-t", "1", "--shapes", "128x512",
                                            "--tokens", "1,17", "--formats", "q4_0,q4_k,q5_k,q6_k,q8_0,mxfp4,f16,bf16"});
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  EXPECT_EQ(result.out.find("WRONG"), std::string::npos) << result.out;
  EXPECT_NE(result.out.find("cpu_generic"), std::string::npos) << result.out;
}

TEST(BenchAttention, FindsEveryKernelOfTheCpuRight) {
  const ProgramResult result = run_program({"bench", "attention", "--device", "cpu", "-t", "1", "--heads", "4:2",
                                            "--head-dim", "64", "--prefill", "33", "--decode", "2x50", "--json"});
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  const json out = json::parse(result.out);
  EXPECT_EQ(out.at("right"), true);
  EXPECT_GE(out.at("rows").size(), 2u);
}

}  // namespace
}  // namespace rocmforge
