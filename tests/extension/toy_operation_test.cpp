// An operation that is added from outside: the registry chooses among its kernels, checks and refuses as it does for others.
#include "extension/toy_operation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "device/device_info.h"

namespace rocmforge {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class ToyOperation : public testing::Test {
 protected:
  ToyOperation() {
    registry_.add<ToyLimit>(make_reference_toy_limit());
    registry_.add<ToyLimit>(make_cpu_toy_limit());
  }

  std::vector<float> limited(const ToyLimit::Spec& spec, std::vector<float> x, std::string_view forced = {}) {
    ExecutionContext context;
    const ToyLimit::Args args{x.data(), static_cast<std::int64_t>(x.size()) / spec.width};
    registry_.choose<ToyLimit>(spec, cpu_device_info(), forced).kernel->run(spec, args, context);
    return x;
  }

  KernelRegistryOf<ToyLimit> registry_;
};

TEST_F(ToyOperation, HasTheSameResultsFromAllKernels) {
  const std::vector<float> x{-3.0f, -2.0f, -0.5f, 0.0f, 1.0f, 2.0f, 2.5f, std::numeric_limits<float>::infinity()};
  const ToyLimit::Spec spec{.width = 4, .limit = 2.0f};
  EXPECT_THAT(limited(spec, x, "reference"), ElementsAre(-2, -2, -0.5, 0, 1, 2, 2, 2));
  EXPECT_EQ(limited(spec, x, "cpu"), limited(spec, x, "reference"));
  EXPECT_TRUE(std::isnan(limited(spec, {NAN, 0, 0, 0})[0]));
}

TEST_F(ToyOperation, IsComputedByTheBestKernelThatTakesIt) {
  EXPECT_EQ(registry_.choose<ToyLimit>({4, 1.0f}, cpu_device_info()).kernel->name(), "cpu_toy");
  const Choice<ToyLimit> other = registry_.choose<ToyLimit>({3, 1.0f}, cpu_device_info());
  EXPECT_EQ(other.kernel->name(), "reference");
  ASSERT_EQ(other.refusals.size(), 1u);
  EXPECT_EQ(other.refusals[0].reason, "the width is not a multiple of 4");
}

TEST_F(ToyOperation, IsRefusedByItsNameInWords) {
  try {
    (void)registry_.choose<ToyLimit>({4, -1.0f}, cpu_device_info());
    FAIL() << "chosen";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("toy_limit"));
    EXPECT_THAT(error.what(), HasSubstr("4 elements up to -1"));
    EXPECT_THAT(error.what(), HasSubstr("a limit of -1"));
  }
}

}  // namespace
}  // namespace rocmforge
